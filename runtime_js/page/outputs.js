// What an entry returned: one number, bars, or a curve.

/** A list up to this length is shown as numbers. */
const SHORT = 16;
const typeOf = ({ dtype, shape }) => dtype + (shape.length ? `[${shape.join(', ')}]` : '');

function clearOutputs() {
  $('outputs').replaceChildren();
  $('curve').hidden = true;
}
/** `found`: arrays by output; `x`: the entry's first input, along which a curve is drawn. */
function showOutputs(entry, found, x) {
  clearOutputs();
  for (const [key, list] of Object.entries(found)) {
    make('p', `${key}: ${typeOf(plan.tensors[plan.entries[entry].outputs[key]])}`, $('outputs'), {
      className: 'note',
    });
    if (list.length > SHORT) {
      $('curve').hidden = false;
      plot($('curve'), [Array.from(list, (v, i) => [x?.length === list.length ? x[i] : i, v])]);
    } else if (list.length > 1) showBars(Array.from(list));
    else $('outputs').lastChild.append(` = ${+list[0].toPrecision(5)}`);
  }
}
function showBars(list) {
  const most = Math.max(...list.map(Math.abs), 1e-9);
  list.forEach((v, i) => {
    const row = make('div', '', $('outputs'), { className: 'bar' });
    make('span', i, row);
    make('i', '', row).style.width = `${(100 * Math.abs(v)) / most}%`;
    make('span', +v.toPrecision(5), row);
  });
}
