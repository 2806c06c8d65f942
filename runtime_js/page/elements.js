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
    if (error.name !== 'AbortError') say(error.message);
  }
};
/** Offers bytes or text as a file. */
function download(content, name) {
  const url = URL.createObjectURL(new Blob([content]));
  make('a', '', document.body, { href: url, download: name }).click();
}
