// Elements of the page, and its status line.

const $ = id => document.getElementById(id);
/** A new element, at the end of `parent` if there is one. */
function make(tag, text, parent, properties) {
  const element = Object.assign(document.createElement(tag), { textContent: text }, properties);
  parent?.append(element);
  return element;
}
const say = text => {
  $('status').textContent = text;
};
/** A handler whose errors are said in the status line. */
const guarded = job => async event => {
  try {
    await job(event);
  } catch (error) {
    if (error.name !== 'AbortError') say(problemWords(error));
  }
};
/** Offers bytes or text as a file. */
function download(content, name) {
  const url = URL.createObjectURL(new Blob([content]));
  const link = make('a', '', document.body, { href: url, download: name });
  link.click();
  link.remove();
  // Some browsers read it only after the click.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Asks in a dialog; resolves to the chosen answer, or undefined if it was left. */
function ask(question, answers) {
  const dialog = make('dialog', '', document.body);
  make('p', question, dialog);
  const row = make('form', '', dialog, { method: 'dialog', className: 'row' });
  for (const value of answers) make('button', value, row, { value });
  dialog.showModal();
  return new Promise(done => {
    dialog.onclose = () => {
      dialog.remove();
      done(dialog.returnValue || undefined);
    };
  });
}
