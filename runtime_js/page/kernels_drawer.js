// What runs on the GPU: each kernel of each entry, beside the line it comes from.

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

showKernels();
