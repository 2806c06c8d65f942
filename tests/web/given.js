// Inputs of every kind, and outputs that stay on the GPU.

const said = promise =>
  promise.then(
    value => ['fine', `${Object.values(value).map(list => Array.from(list))}`],
    error => [error.code, error.field, error.message],
  );
const rows = [
  [1, 2, 3],
  [4, 6, 5],
  [9, 8, 7],
  [0, 1, 2],
];

export default async function given({ load, device: gpu }, { device = gpu }) {
  const model = await load({ device });
  const isGpu = model.adapter.kind === 'webgpu';
  const found = {
    nested: await nested(model),
    pictures: await pictures(model),
    refused: await refusals(model),
    ...(isGpu ? await onTheGpu(model) : {}),
    ...(globalThis.OffscreenCanvas ? await browserPictures(model) : {}),
  };
  if (!isGpu) {
    const buffer = { mapAsync() {}, destroy() {}, size: 48, usage: 4 };
    found.twin = [
      await said(model.predict({ x: buffer })),
      await said(model.predict({ x: rows }, { output: 'gpu' })),
    ];
  }
  model.dispose();
  return found;
}

async function nested(model) {
  const { y, best } = await model.predict({ x: rows });
  const more = await model.predict({ x: [...rows, [5, 5, 6]] });
  const typed = await model.predict({ x: rows.map(row => Float32Array.from(row)) });
  return {
    y: Array.from(y),
    best: Array.from(best),
    more: [more.y.shape, Array.from(more.best)],
    typed: `${typed.y}` === `${y}`,
    picked: Array.from((await model.pick({ id: [3, 2, 1, 0], x: rows })).y),
  };
}

/** Two by two pixels of one colour each: red, green over blue, white (transparent). */
const pixels = () => ({
  width: 2,
  height: 2,
  data: Uint8ClampedArray.of(255, 0, 0, 255, 0, 255, 0, 255, 0, 0, 255, 255, 9, 9, 9, 0),
});

async function pictures(model) {
  const one = await model.means({ image: pixels() });
  const two = await model.means({ image: [pixels(), pixels()] });
  const grey = await model.grey({ image: pixels() });
  return { one: [one.means.shape, Array.from(one.means)], two: two.means.shape, grey: grey.sum[0] };
}

async function browserPictures(model) {
  const canvas = new OffscreenCanvas(4, 4);
  const context = canvas.getContext('2d');
  context.fillStyle = '#ff0000';
  context.fillRect(0, 0, 4, 2);
  context.fillStyle = '#0000ff';
  context.fillRect(0, 2, 4, 2);
  const sources = {
    canvas,
    data: context.getImageData(0, 0, 4, 4),
    bitmap: await createImageBitmap(canvas),
    blob: await canvas.convertToBlob(),
  };
  if (globalThis.VideoFrame) sources.frame = new VideoFrame(canvas, { timestamp: 0 });
  if (globalThis.document) {
    sources.element = document.createElement('canvas');
    sources.element.width = sources.element.height = 4;
    sources.element.getContext('2d').drawImage(canvas, 0, 0);
  }
  const seen = {};
  for (const [name, image] of Object.entries(sources))
    seen[name] = Array.from((await model.means({ image })).means);
  sources.frame?.close();
  return { seen };
}

async function refusals(model) {
  return {
    ragged: await said(
      model.predict({
        x: [
          [1, 2, 3],
          [4, 5],
        ],
      }),
    ),
    deeper: await said(
      model.predict({
        x: [
          [1, 2, 3],
          [4, 5, [6]],
        ],
      }),
    ),
    wide: await said(model.predict({ x: rows.map(row => [...row, 1]) })),
    object: await said(model.predict({ x: {} })),
    picture: await said(model.predict({ x: pixels() })),
    number: await said(model.predict({ x: [[1, 2, Number.NaN], ...rows.slice(1)] })),
    index: await said(model.pick({ id: [[0], [1], [2], [3]], x: rows })),
    range: await said(model.pick({ id: [0, 1, 2, 4], x: rows })),
    option: await said(model.predict({ x: rows }, { outputs: 'gpu' })),
    output: await said(model.predict({ x: rows }, { output: 'cpu' })),
  };
}

async function onTheGpu(model) {
  const { y, best } = await model.predict({ x: rows }, { output: 'gpu' });
  // Outputs are inputs of the next call, which doubles them again.
  const again = await model.call('predict', { x: y.buffer }, { output: 'gpu' });
  const read = await model.predict({ x: again.y.buffer });
  const mixed = await model.pick({ id: [3, 3, 3, 3], x: y.buffer });
  const small = model.device.createBuffer({ size: 16, usage: 0x84 });
  const unreadable = model.device.createBuffer({ size: 48, usage: 0x80 });
  const result = {
    facts: [y.shape, y.dtype, y.buffer.size, best.dtype],
    read: Array.from(read.y),
    mixed: Array.from(mixed.y),
    wrong: {
      size: await said(model.predict({ x: small })),
      usage: await said(model.predict({ x: unreadable })),
      other: await said(model.pick({ id: [0, 0, 0, 9], x: y.buffer })),
      rows: await said(model.predict({ x: [...rows, ...rows] }, { output: 'gpu' })),
    },
  };
  for (const { buffer } of [y, best, again.y, again.best]) buffer.destroy();
  return { gpu: result };
}
