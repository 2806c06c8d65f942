// The page with its trained weights, as one file: the page's own text, with a checkpoint in it.

/** The document before any script changed it. */
const untouched = document.documentElement.cloneNode(true);
/** The line of bundle.js that holds a checkpoint. */
const TRAINED_LINE = /const trained ?= ?[^;\n]*;/;

/** The text of this page as one file; a page that is served has it beside it. */
async function ownText() {
  if (!isServed) return `<!doctype html>\n${untouched.outerHTML}\n`;
  const response = await fetch('./index.html');
  if (!response.ok) throw Error('index.html of the bundle is not beside this page.');
  return response.text();
}

async function exportPage() {
  await heldOut.running;
  const checkpoint = await base64Of(await page.model.save({ blob: true }));
  const text = await ownText();
  const line = text.match(TRAINED_LINE)?.[0];
  if (!line) throw Error('This page cannot be exported.');
  const [before, ...after] = text.split(line);
  const whole = `${before}const trained='${checkpoint}';${after.join(line)}`;
  download(whole, `${plan.model.name}-${page.step}.html`);
  say(`Downloaded this page with the weights of step ${page.step}: it is one file.`);
}

const base64Of = blob =>
  new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.split(',')[1]);
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(blob);
  });

$('export').onclick = guarded(exportPage);
