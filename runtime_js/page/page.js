// The page of a bundle: trains any model and predicts with it. `plan`, `kernels`, `source` and
// `load` are defined above.

const $ = id => document.getElementById(id);
const entries = Object.keys(plan.entries);
const trainer = entries.find(name => plan.entries[name].training);
const others = entries.filter(name => !plan.entries[name].training);
const typeOf = ({ dtype, shape }) => dtype + (shape.length ? `[${shape.join(', ')}]` : '');
const make = (tag, text, parent, properties) =>
  parent.appendChild(Object.assign(document.createElement(tag), { textContent: text }, properties));
const say = text => {
  $('status').textContent = text;
};
/** Elements of generated data; more take long to draw. */
const MOST_GENERATED = 2 ** 20;
/** A list up to this length is shown as numbers. */
const SHORT = 16;
let model;
let data;
let history = [];
let running = null;
let seed = 1;
let inputs = {};
let shown = 0;

$('about').textContent = source
  .match(/^(\s*\/\/\/.*\n)*/)[0]
  .replace(/\s*\/\/\/\s*/g, ' ')
  .trim();
showKernels();
load({ onProgress: ({ stage, done, total }) => say(`Loading ${stage}: ${done} of ${total}`) }).then(
  begin,
  explain,
);

function begin(loaded) {
  model = loaded;
  const params = Object.values(plan.tensors)
    .filter(({ role }) => role === 'param')
    .reduce((sum, { shape }) => sum + elementCount(shape), 0);
  const { kind, name } = model.adapter;
  const where = kind === 'wasm' ? 'your CPU (WebAssembly): no GPU was found' : name || 'your GPU';
  say(`${params.toLocaleString()} parameters, on ${where}`);
  watch();
  if (trainer) {
    for (const id of ['train', 'data']) $(id).hidden = false;
    $('columns').textContent = Object.entries(plan.entries[trainer].inputs)
      .map(([name, key]) => `${name}: ${typeOf(plan.tensors[key])}`)
      .join(', ');
    generate();
  }
  for (const name of others) make('option', name, $('entry'), { selected: name === 'predict' });
  $('try').hidden = !others.length;
  if (others.length) choose();
}

/** After a lost device the training continues from the last snapshot; nothing else is lost. */
function watch() {
  model.lost.then(async () => {
    stop();
    await model.recover().then(watch, explain);
    showStep();
  });
}

const guarded = job => async event => {
  try {
    await job(event);
  } catch (error) {
    if (error.name !== 'AbortError') say(error.message);
  }
};
const stop = () => running?.abort();
const step = () => ownOf(model.progress.steps, trainer) ?? 0;
const showStep = () => {
  $('step').textContent = step();
  history = history.filter(point => point[0] <= step());
  plot($('plot'), [history], { log: true });
};

$('start').onclick = guarded(async () => {
  if (running) return stop();
  running = new AbortController();
  $('start').textContent = 'Stop';
  try {
    for await (const { step, loss, ms } of model.fit(data, {
      entry: trainer,
      steps: 1e9,
      every: 10,
      signal: running.signal,
    })) {
      history.push([step, loss]);
      if (history.length > 600) history = history.filter((_, i) => i % 2 || i > 500);
      $('loss').textContent = loss < 1e-3 ? loss.toExponential(2) : loss.toPrecision(4);
      $('speed').textContent = Number((1000 / ms).toPrecision(3)).toLocaleString('en');
      showStep();
      if (performance.now() - shown > 500) await refresh();
    }
  } finally {
    running = null;
    $('start').textContent = 'Train';
    showStep();
    await refresh();
  }
});
$('reset').onclick = guarded(async () => {
  stop();
  await ($('seed').value ? model.reset(+$('seed').value) : model.reset());
  history = [];
  $('loss').textContent = '–';
  showStep();
  await refresh();
});
$('save').onclick = guarded(async () =>
  say(
    (await model.store())
      ? `Saved step ${step()} in this browser.`
      : `Saved step ${step()} in this browser (until it runs out of space).`,
  ),
);
$('restore').onclick = guarded(async () => {
  stop();
  const notes = await model.recall();
  say(
    notes
      ? [`Restored step ${step()}.`, ...notes].join(' ')
      : 'Nothing is saved in this browser yet.',
  );
  showStep();
  await refresh();
});
$('download').onclick = guarded(async () => {
  const url = URL.createObjectURL(new Blob([await model.save()]));
  make('a', '', document.body, {
    href: url,
    download: `${plan.model.name}-${step()}.safetensors`,
  }).click();
});
$('open').onchange = guarded(async ({ target }) => {
  stop();
  const notes = await model.restore(await target.files[0].arrayBuffer());
  say([`Opened step ${step()}.`, ...notes].join(' '));
  showStep();
});
document.onvisibilitychange = () => {
  if (document.hidden && running) model.store().catch(() => {});
};
const redraw = () => {
  if (model) showStep();
};
matchMedia('(prefers-color-scheme: dark)').onchange = redraw;
window.onresize = redraw;

// ---- data

function generate() {
  const elements = Object.values(plan.entries[trainer].inputs).reduce(
    (sum, id) => sum + elementCount(plan.tensors[id].shape),
    0,
  );
  const batches = Math.max(1, Math.min(8, Math.floor(MOST_GENERATED / elements)));
  use(generated(trainer, seed++, batches), 'generated');
}
function use(found, from) {
  const [name, id] = Object.entries(plan.entries[trainer].inputs)[0] ?? [];
  data = found;
  $('rows').textContent = id
    ? `${rowCount(found[name], plan.tensors[id]).toLocaleString()} rows, ${from}`
    : from;
}
const rowCount = (list, { shape }) =>
  Math.round((list?.length / elementCount(shape)) * (shape[0] ?? 1));
const take = guarded(async file => {
  stop();
  use(await fromFile(file, trainer), `from ${file.name}`);
});
$('generate').onclick = guarded(() => {
  stop();
  generate();
});
$('file').onchange = ({ target }) => take(target.files[0]);
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
  take(event.dataTransfer.files[0]);
};

// ---- predictions

function choose() {
  inputs = generated($('entry').value, seed++, 1);
  // Points along a line are drawn in order.
  const [first] = Object.values(inputs);
  const ports = plan.entries[$('entry').value].inputs;
  const [firstId] = Object.values(ports);
  if (first?.length > SHORT && first.length === plan.tensors[firstId].shape[0]) first.sort();
  $('inputs').replaceChildren();
  for (const [name, list] of Object.entries(inputs)) {
    const label = make('label', `${name}: ${typeOf(plan.tensors[ports[name]])}`, $('inputs'), {
      className: 'field note',
    });
    if (list.length <= SHORT)
      make('input', '', label, {
        value: Array.from(list, v => +v.toPrecision(3)).join(', '),
        oninput: ({ target }) => {
          inputs[name] = list.constructor.from(target.value.split(','), Number);
        },
      });
  }
  clear();
  return guarded(refresh)();
}
function clear() {
  $('outputs').replaceChildren();
  $('curve').hidden = true;
}
async function predict() {
  const name = $('entry').value;
  const found = await model.call(name, inputs);
  const [x] = Object.values(inputs);
  shown = performance.now();
  clear();
  for (const [key, list] of Object.entries(found)) {
    make('p', `${key}: ${typeOf(plan.tensors[plan.entries[name].outputs[key]])}`, $('outputs'), {
      className: 'note',
    });
    if (list.length > SHORT) {
      $('curve').hidden = false;
      plot($('curve'), [Array.from(list, (v, i) => [x?.length === list.length ? x[i] : i, v])]);
    } else if (list.length > 1) bars(Array.from(list));
    else $('outputs').lastChild.append(` = ${+list[0].toPrecision(5)}`);
  }
}
/** Predicts again, unless that would change the model's state. */
async function refresh() {
  if (others.length && !plan.entries[$('entry').value].writes.length) await predict();
}
function bars(list) {
  const most = Math.max(...list.map(Math.abs), 1e-9);
  list.forEach((v, i) => {
    const row = make('div', '', $('outputs'), { className: 'bar' });
    make('span', i, row);
    make('i', '', row).style.width = `${(100 * Math.abs(v)) / most}%`;
    make('span', +v.toPrecision(5), row);
  });
}
$('entry').onchange = choose;
$('other').onclick = choose;
$('run').onclick = guarded(predict);

// ---- what runs on the GPU

function showKernels() {
  const lines = source.split('\n');
  for (const name of entries)
    for (const { kernel, at, label, grid } of plan.entries[name].dispatches) {
      const line = +at?.split(':').pop();
      const item = make('details', '', $('kernels'));
      make('summary', `${name} · ${label || plan.kernels[kernel].name} `, item);
      make('code', line ? `${at}  ${lines[line - 1]?.trim() ?? ''}` : '', item.firstChild, {
        className: 'note',
      });
      item.ontoggle = () =>
        item.children[1] ||
        make(
          'pre',
          `// ${grid.join(' × ')} workgroups\n${kernels[plan.kernels[kernel].file]}`,
          item,
        );
    }
}

/** What to do where WebGPU is missing; or what went wrong. */
function explain(error) {
  const isMissing = lacksWebGpu(error);
  const box = $('problem');
  say(isMissing ? 'This model runs by WebGPU.' : 'This did not work.');
  box.hidden = false;
  box.replaceChildren();
  make('h2', isMissing ? 'There is no WebGPU here' : error.message, box);
  const advice = isMissing ? waysToWebGpu() : ['Reload the page to try again.'];
  for (const text of advice) make('p', text, box);
}

function waysToWebGpu() {
  return [
    isSecureContext
      ? 'Open this file in a current Chrome or Edge, in Safari 26 or newer, or in Firefox 141 or newer.'
      : 'Browsers give it to pages from https, localhost or a disk, not from http: save this file and open it.',
    'On Linux, switch on chrome://flags/#enable-unsafe-webgpu in Chrome.',
    'From Python it runs anywhere: install wgcc, then wgcc train on this folder.',
  ];
}
