// The card of the data: what the model trains on, generated or from a file.

/** Elements of generated data; more take long to draw. */
const MOST_GENERATED = 2 ** 20;
let dataSeed = 1;

function useGenerated() {
  const elements = Object.values(plan.entries[trainer].inputs).reduce(
    (sum, id) => sum + elementCount(plan.tensors[id].shape),
    0,
  );
  const batches = Math.max(1, Math.min(8, Math.floor(MOST_GENERATED / elements)));
  const train = generated(trainer, dataSeed++, batches);
  const heldOut = generated(trainer, dataSeed++, 1);
  return page.use({ train, heldOut, label: 'generated', isInvented: true });
}
const takeFile = guarded(async file => {
  const train = await fromFile(file, trainer);
  await page.use({ train, heldOut: null, label: `from ${file.name}`, isInvented: false });
});
function showData() {
  if (!page.data) return;
  const [name, id] = Object.entries(plan.entries[trainer].inputs)[0] ?? [];
  const { train, label } = page.data;
  $('rows').textContent = id
    ? `${rowCount(trainer, train).toLocaleString()} rows, ${label}`
    : label;
}

page.when('loaded', () => {
  $('data').hidden = !trainer;
  if (!trainer) return;
  $('columns').textContent = Object.entries(plan.entries[trainer].inputs)
    .map(([name]) => `${name}: ${inputWords(trainer, name)}`)
    .join(', ');
  return useGenerated();
});
page.when('data', showData);
$('generate').onclick = guarded(useGenerated);
$('file').onchange = ({ target }) => takeFile(target.files[0]);
$('drop').ondragover = event => {
  event.preventDefault();
  $('drop').className = 'over';
};
$('drop').ondragleave = () => {
  $('drop').className = '';
};
$('drop').ondrop = event => {
  event.preventDefault();
  $('drop').className = '';
  takeFile(event.dataTransfer.files[0]);
};
