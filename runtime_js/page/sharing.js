// A link to the page as it is set: seed, target, speed and kind of data, in the part after #.

const SHARED_FIELDS = { seed: 'seed', steps: 'target', unit: 'target-unit', speed: 'speed-limit' };

function sharedState() {
  const state = new URLSearchParams();
  for (const [key, id] of Object.entries(SHARED_FIELDS))
    if ($(id).value) state.set(key, $(id).value);
  state.set('data', dataKind());
  return `${state}`;
}

/** Invented, in the page, or of somebody's own. */
function dataKind() {
  if (page.data?.isInvented) return 'invented';
  return dataPanel.source ? 'own' : 'page';
}

/** Sets the controls as a link says. */
function applyLink() {
  const state = new URLSearchParams(location.hash.slice(1));
  for (const [key, id] of Object.entries(SHARED_FIELDS)) {
    const before = $(id).value;
    if (state.has(key)) $(id).value = state.get(key);
    // A choice that is not in the list would leave it empty.
    $(id).value ||= before;
  }
  return state;
}

async function share() {
  const link = `${location.href.split('#')[0]}#${sharedState()}`;
  history.replaceState(null, '', link);
  const isCopied = await navigator.clipboard?.writeText(link).then(
    () => true,
    () => false,
  );
  const file = location.protocol === 'file:' ? ' It is to this file: send the file with it.' : '';
  say(`${isCopied ? 'The link is copied.' : 'The link is in the address bar.'}${file}`);
}

page.when('loaded', async () => {
  const state = applyLink();
  const seed = state.get('seed');
  if (seed && trainer && !page.step) await page.model.reset(Number(seed) >>> 0);
  if (state.get('data') === 'own')
    say('This link was made with data of somebody’s own: choose it below.');
});
$('share').onclick = guarded(share);
