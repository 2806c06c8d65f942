// What is inside: sizes, the types of inputs and outputs, and each kernel beside the line it comes
// from.

const typeOf = ({ dtype, shape }) => dtype + (shape.length ? `[${shape.join(', ')}]` : '');
const typesOf = ports =>
  Object.entries(ports)
    .map(([name, id]) => `${name}: ${typeOf(plan.tensors[id])}`)
    .join(', ');

function showFacts() {
  const facts = make('ul', '', $('kernels'), { className: 'note' });
  make('li', `${countOf(parameterCount(), 'parameter')}`, facts);
  const bytes = plan.memory.peak + (plan.memory.guard ?? 0);
  make('li', `${(bytes / 2 ** 20).toFixed(1)} MB of memory on the GPU`, facts);
  make('li', `${plan.generator}, from ${plan.model.source}`, facts);
  for (const [name, { inputs, outputs }] of Object.entries(plan.entries))
    make('code', `${name}(${typesOf(inputs)}) -> (${typesOf(outputs)})`, make('li', '', facts));
}

function showKernels() {
  const lines = source.split('\n');
  for (const name of entries)
    for (const dispatch of plan.entries[name].dispatches) addKernel(name, dispatch, lines);
}
function addKernel(entry, { kernel, at, label, grid }, lines) {
  const line = +at?.split(':').pop();
  const item = make('details', '', $('kernels'));
  make('summary', `${entry} · ${label || plan.kernels[kernel].name} `, item);
  make('code', line ? `${at}  ${lines[line - 1]?.trim() ?? ''}` : '', item.firstChild, {
    className: 'note',
  });
  item.ontoggle = () =>
    item.children[1] ||
    make('pre', `// ${grid.join(' × ')} workgroups\n${kernels[plan.kernels[kernel].file]}`, item);
}

showFacts();
showKernels();
