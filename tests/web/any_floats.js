// Inputs that may hold NaN and infinity, and one that may not.

const X = [1, NaN, 2, 0, 1, 3];
const x = [...X, ...X, ...X];
const h = [Infinity, 0.5, -Infinity, 0.25, 0, 1];
const strict = h.map(() => 1);

export default async function anyFloats({ load, device }) {
  const model = await load({ device });
  const { y } = await model.call('predict', { x: Float32Array.from(x) });
  const longer = [...x, ...x, ...x];
  const rows = await model.call('predict', { x: Object.assign(longer, { shape: [18, 3] }) });
  const { loss } = await model.train({ x, h, strict });
  const data = { x: [x, x].flat(), h: [h, h].flat(), strict: [strict, strict].flat() };
  const fitted = await model.fit(data, { steps: 4 });
  const refused = await failure(model.train({ x, h, strict: strict.map(() => NaN) }));
  const blamed = await failure(model.train({ x: x.map(n => n || Infinity), h, strict }));
  model.dispose();
  return {
    y: [...y],
    rows: [...rows.seen].filter(Boolean).length,
    loss: loss[0] ?? loss,
    fitted: fitted.loss,
    refused,
    blamed,
  };
}

function failure(promise) {
  return promise.then(
    () => ['done', ''],
    error => [error.code, error.message],
  );
}
