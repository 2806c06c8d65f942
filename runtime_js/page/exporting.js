// The page with its trained weights, as one file: the page's own text, with a checkpoint in the
// element that bundle.js reads it from.

/** The document before any script changed it. */
const untouched = document.documentElement.cloneNode(true);
/**
 * The element. It stands before all scripts, and what people wrote (title, comments) stands in the
 * scripts or is escaped, so that its first tag is its own.
 */
const SLOT = 'script#trained';
const SLOT_TAG = '<script type="text/plain" id="trained">';

/** The text of this page as one file; a page that is served has it beside it. */
async function ownText() {
  if (!isServed) return `<!doctype html>\n${untouched.outerHTML}\n`;
  const response = await fetch('./index.html');
  if (!response.ok) throw Error('index.html of the bundle is not beside this page.');
  return response.text();
}

/** The page with a checkpoint, which was read back from it as a browser reads it. */
function withCheckpoint(text, checkpoint) {
  const start = text.indexOf(SLOT_TAG) + SLOT_TAG.length;
  const end = text.indexOf('</script>', start);
  const whole = text.slice(0, start) + checkpoint + text.slice(end);
  // Nothing in a template is run or applied.
  const template = make('template', '', null, { innerHTML: whole });
  const slots = template.content.querySelectorAll(SLOT);
  if (!checkpoint || slots.length !== 1 || slots[0].textContent !== checkpoint)
    throw Error('The weights could not be put into this page: download them instead.');
  return whole;
}

async function exportPage() {
  await heldOut.running;
  const { step } = page;
  const checkpoint = await base64Of(await page.model.save({ blob: true }));
  const text = withCheckpoint(await ownText(), checkpoint);
  download(text, `${plan.model.name}-${step}.html`);
  saves.keep(step);
  say(`Downloaded this page with the weights of step ${step}: it is one file.`);
}

const base64Of = blob =>
  new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.split(',')[1]);
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(blob);
  });

$('export').onclick = guarded(exportPage);
