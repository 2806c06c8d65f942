// New names of classes beside known ones: what is read, learned and kept, in the page and a worker.

export default async function knownClasses({ load }, { files }) {
  const given = files.map(({ path, data }) => {
    const bytes = Uint8Array.from(atob(data), letter => letter.charCodeAt(0));
    return Object.assign(new File([bytes], path.split('/').at(-1)), { path });
  });
  return { page: await learned(load, given), worker: await learned(load, given, true) };
}

async function learned(load, given, worker = false) {
  const model = await load({ device: 'wasm', worker });
  const data = await model.readData(given);
  const { arrays } = data;
  await model.fit(data, { steps: 60 });
  const { scores } = await model.predict({ x: arrays.x });
  const subset = await model.readData(given.filter(({ name }) => name.startsWith('star')));
  const moons = given.map(file => Object.assign(new File([file], `moon_${file.name}`)));
  const refused = await model.readData(moons).catch(error => error.message);
  const { classes } = model;
  const saved = await model.save();
  model.dispose();
  const again = await load({ device: 'wasm', worker });
  await again.restore(saved);
  const restored = again.classes;
  // Arrays as they are have no names of their own.
  const rows = Array.from(arrays.target, (_, row) => [pictureAt(arrays.x, row)]);
  const text = JSON.stringify({ x: rows, target: [...arrays.target] });
  const plain = await again.readData(text, { name: 'arrays.json' });
  if (plain.preparation) throw new Error('arrays have no preparation');
  await again.fit(plain, { steps: 1 });
  const found = {
    ids: [...arrays.target],
    best: given.map((_, row) => best(scores.slice(row * 12, row * 12 + 12))),
    subset: [...subset.arrays.target],
    classes,
    restored,
    arrays: again.classes,
    refused,
  };
  again.dispose();
  return found;
}

/** Its lines of 8 numbers. */
const pictureAt = (pixels, row) =>
  Array.from({ length: 8 }, (_, y) => [...pixels.slice(row * 64 + y * 8, row * 64 + y * 8 + 8)]);
const best = row => row.indexOf(Math.max(...row));
