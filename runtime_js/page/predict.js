// The card of the predictions: an entry that does not train, its inputs, and what it returns.

let inputs = {};

/** Fields for the chosen entry, with generated inputs. */
function choose() {
  inputs = generated($('entry').value, dataSeed++, 1);
  const ports = plan.entries[$('entry').value].inputs;
  sortPoints(Object.values(inputs)[0], plan.tensors[Object.values(ports)[0]]);
  $('inputs').replaceChildren();
  for (const [name, list] of Object.entries(inputs)) {
    const label = make('label', `${name}: ${typeOf(plan.tensors[ports[name]])}`, $('inputs'), {
      className: 'field note',
    });
    if (list.length <= SHORT) addField(name, list, label);
  }
  clearOutputs();
  return guarded(refresh)();
}
/** Points along a line are drawn in order. */
function sortPoints(list, tensor) {
  if (list?.length > SHORT && list.length === tensor.shape[0]) list.sort();
}
function addField(name, list, label) {
  make('input', '', label, {
    value: Array.from(list, v => +v.toPrecision(3)).join(', '),
    oninput: ({ target }) => {
      inputs[name] = list.constructor.from(target.value.split(','), Number);
    },
  });
}
async function predict() {
  const name = $('entry').value;
  const found = await page.model.call(name, inputs);
  showOutputs(name, found, Object.values(inputs)[0]);
}
/** Predicts again, unless that would change the model's state. */
async function refresh() {
  if (others.length && !plan.entries[$('entry').value].writes.length) await predict();
}

page.when('loaded', () => {
  for (const name of others) make('option', name, $('entry'), { selected: name === 'predict' });
  $('try').hidden = !others.length;
  if (others.length) return choose();
});
page.when('learned', refresh);
page.when('values', refresh);
$('entry').onchange = choose;
$('other').onclick = choose;
$('run').onclick = guarded(predict);
