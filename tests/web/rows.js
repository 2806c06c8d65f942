// Calls with any number of rows (tests/python/test_rows_runtime.py): outputs and their shapes, and what is refused.

const said = promise =>
  promise.then(
    () => 'fine',
    error => [error.code, error.field, error.message],
  );

export default async function rows({ load, device }, { batches }) {
  const model = await load({ device });
  const found = [];
  for (const { x, label } of batches) {
    const points = new Float32Array(x);
    const outputs = {
      predict: await model.predict({ x: points, scale: 2 }),
      eval: await model.eval({ x: points, label }),
    };
    found.push(mapValues(outputs, entry => mapValues(entry, shown)));
  }
  const five = new Float32Array(15);
  const labels = [0, 1, 0, 1, 0];
  const refused = {
    mixed: await said(model.mixed({ x: five })),
    train: await said(model.train({ x: five, label: labels })),
    fit: await said(model.fit({ x: five, label: labels }, { steps: 1 }).next()),
    differ: await said(model.eval({ x: five, label: [0, 1] })),
    none: await said(model.predict({ x: [], scale: 1 })),
    shape: await said(model.predict({ x: new Float32Array(16), scale: 1 })),
    width: await said(model.predict({ x: Array(3).fill([1, 2]), scale: 1 })),
    label: await said(model.eval({ x: five, label: [0, 1, 2, 0, 0] })),
    number: await said(model.predict({ x: [...five.subarray(1), Number.NaN], scale: 1 })),
    lone: await said(model.eval({ x: [1, 2, 3], label: 0 })),
    scale: await said(model.predict({ x: five, scale: [1, 2] })),
  };
  model.dispose();
  return { found, refused };
}

const mapValues = (record, change) =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));
const shown = values => ({
  type: values.constructor.name,
  shape: values.shape,
  values: Array.from(values),
});
