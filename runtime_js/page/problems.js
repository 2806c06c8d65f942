// Errors in words for visitors: what happened, and what they can do.

/** By code of the runtime's errors; others are said as the runtime says them, without their code. */
const PROBLEMS = {
  'device-lost': () => 'The GPU, or the worker that computes, was lost. This page opens it again.',
  'time-out': () => 'The GPU does not answer. Close other pages that use it, and reload this one.',
  closed: () => 'The model was closed. Reload the page to go on.',
  bundle: reason =>
    /part is missing/.test(reason)
      ? 'A part of this page could not be loaded. Is the connection gone? Try again once it is back.'
      : reason,
};

/** What a visitor reads about an error. */
function problemWords(error) {
  const text = `${error?.message ?? error}`;
  // Errors of the page itself are written for visitors.
  if (error?.name === 'Error' && !error.code) return text;
  if (typeof error?.code !== 'string') return sentence(`this page failed: ${text}`);
  const reason = text.replace(`${error.code}: `, '');
  return sentence(PROBLEMS[error.code]?.(reason) ?? reason);
}
const sentence = text =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?:…]$/.test(text) ? '' : '.'}`;

/** Before the page is left while `hasUnsavedWork()`, the browser asks. */
function askBeforeLeaving(hasUnsavedWork) {
  window.addEventListener('beforeunload', event => {
    if (hasUnsavedWork()) event.preventDefault();
  });
}
