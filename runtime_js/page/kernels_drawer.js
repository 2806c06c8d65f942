// What is inside: sizes, the types of inputs and outputs, and each kernel beside the line it comes
// from.

import { kernels, plan, source } from './bundle.js';
import { $, h } from './elements.js';
import { countOf, parameterCount } from './ports.js';

/** @import { Dispatch } from '../core/plan.js' */

/** @param {Record<string, string>} ports ids of tensors by name */
const typesOf = ports =>
  Object.entries(ports)
    .map(([name, id]) => {
      const { dtype, shape } = plan.tensors[id];
      return `${name}: ${dtype}${shape.length ? `[${shape.join(', ')}]` : ''}`;
    })
    .join(', ');

function facts() {
  const bytes = plan.memory.peak + (plan.memory.guard ?? 0);
  const types = Object.entries(plan.entries).map(([name, { inputs, outputs }]) =>
    h('code', `${name}(${typesOf(inputs)}) -> (${typesOf(outputs)})`),
  );
  const items = [
    countOf(parameterCount(), 'parameter'),
    `${(bytes / 2 ** 20).toFixed(1)} MB of memory on the GPU`,
    `${plan.generator}, from ${plan.model.source}`,
    ...types,
  ];
  return h(
    'ul',
    items.map(item => h('li', item)),
    { className: 'note' },
  );
}

/** @param {string} entry @param {Dispatch} dispatch @param {string[]} lines of the source */
function kernelItem(entry, { kernel, at, label, grid }, lines) {
  const { name, file } = plan.kernels[kernel];
  const line = Number(at?.split(':').pop());
  const place = line ? `${at}  ${lines[line - 1]?.trim() ?? ''}` : '';
  const summary = [`${entry} · ${label || name} `, h('code', place, { className: 'note' })];
  const item = h('details', h('summary', summary));
  item.ontoggle = () =>
    item.children[1] ||
    item.append(h('pre', `// ${grid.join(' × ')} workgroups\n${kernels[file]}`));
  return item;
}

export function drawKernels() {
  const lines = source.split('\n');
  const items = Object.entries(plan.entries).flatMap(([name, { dispatches }]) =>
    dispatches.map(dispatch => kernelItem(name, dispatch, lines)),
  );
  $('kernels').append(facts(), ...items);
}
