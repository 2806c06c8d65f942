// On pages of `wgcc serve`: reloads when the model was built anew, and shows what is wrong with it.

const STYLE =
  'position:fixed;inset:0;z-index:2147483647;margin:0;padding:1.5rem;overflow:auto;' +
  'background:rgb(18 21 26/.94);color:#ffd9d2;font:14px/1.5 ui-monospace,monospace;white-space:pre-wrap';

/** @type {number | undefined} */
let shown;
/** @type {HTMLElement | undefined} */
let overlay;

/** @param {string} text what is wrong, or nothing */
function showProblem(text) {
  overlay?.remove();
  overlay = undefined;
  if (!text) return;
  overlay = document.createElement('pre');
  overlay.id = 'wgcc-problem';
  overlay.setAttribute('role', 'alert');
  overlay.setAttribute('style', STYLE);
  overlay.tabIndex = 0;
  overlay.textContent = text;
  document.body.append(overlay);
  overlay.focus();
}

// The browser connects again by itself, also to a server that was started anew.
new EventSource('/.wgcc/events').onmessage = event => {
  const { build, problem } = JSON.parse(event.data);
  if (shown !== undefined && build !== shown) location.reload();
  else showProblem(problem);
  shown = build;
};
