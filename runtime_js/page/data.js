// Data for a model of which only the inputs' types are known: generated, or read from a file.

/** Rows in which every input is a smooth function of a hidden point, so that each can be learned from the others. */
function generated(entry, seed, times) {
  const { inputs, ranges = {} } = plan.entries[entry],
    tensors = Object.values(inputs).map(key => plan.tensors[key]);
  const batch = tensors.find(t => t.shape.length)?.shape[0] ?? 1,
    floats = tensors.filter(t => t.dtype[0] == 'f' && t.shape[0] == batch);
  const depth = floats[0]?.shape.length > 1 && size(floats[0]) > batch ? 2 : 1,
    draw = randomUnits;
  const hidden = draw(seed, 'hidden', batch * times * depth).map(u => 2 * u - 1);
  return Object.fromEntries(
    Object.keys(inputs).map((name, k) => {
      const t = plan.tensors[inputs[name]],
        rows = t.shape[0] == batch ? batch * times : 1,
        row = rows > 1 ? size(t) / batch : size(t);
      const w = draw(7, name, row * 3),
        { low = 0, high = t.dtype == 'u8' ? 255 : t.dtype == 'bool' ? 1 : 3 } = asRange(ownOf(ranges, name));
      const value = (r, j) => {
        if (!t.shape.length) return t.dtype[0] != 'f' ? low : /lr|rate/.test(name) ? 0.001 : 1;
        const [a, b] = [hidden[r * depth], hidden[r * depth + depth - 1]];
        if (t == floats[0] && j < depth) return (j ? b : a) * 3;
        const s = Math.sin(3 * (w[3 * j] + 0.3) * a + (depth - 1) * 3 * (w[3 * j + 1] - 0.5) * b + 6 * w[3 * j + 2]);
        if (t.dtype[0] == 'f') return s;
        // Rows of numbers without anything else count on, from a start: the next is known from the last.
        if (!floats.length && row > 3 && t.dtype != 'u8')
          return low + ((Math.floor((a + 1) * 50) + j * (1 + (r % 2))) % (high - low + 1));
        return low + Math.min(high - low, Math.floor(((s + 1) / 2) * (high - low + 1)));
      };
      return [name, arrayOf(t, rows * row, i => value(Math.floor(i / row), i % row))];
    }),
  );
}

const size = t => t.shape.reduce((a, b) => a * b, 1);
const asRange = range => (Array.isArray(range) ? { low: range[0], high: range[1] } : (range ?? {}));
const arrayOf = (t, length, value) =>
  (({ f32: Float32Array, f16: Float32Array, i32: Int32Array, u32: Uint32Array })[t.dtype] ?? Uint8Array).from(
    { length },
    (_, i) => value(i),
  );

/** Arrays by input name from a .safetensors file (by name) or a .csv file (columns in the inputs' order). */
async function fromFile(file, entry) {
  const { inputs } = plan.entries[entry];
  if (/\.safetensors$/.test(file.name)) return readTensors(await file.arrayBuffer(), file.name).tensors;
  const rows = (await file.text())
    .trim()
    .split(/\r?\n/)
    .map(line => line.split(/[,;\t]/).map(Number))
    .filter(row => !row.some(Number.isNaN));
  let at = 0;
  return Object.fromEntries(
    Object.keys(inputs).map(name => {
      const t = plan.tensors[inputs[name]],
        row = size(t) / (t.shape[0] ?? 1),
        from = at;
      at += row;
      if (!(rows[0]?.length >= at))
        throw Error(`${file.name} has ${rows[0]?.length ?? 0} columns; \`${name}\` would need ${at}`);
      return [name, arrayOf(t, rows.length * row, i => rows[Math.floor(i / row)][from + (i % row)])];
    }),
  );
}
