// The values a model starts with, integer inputs, and an entry without inputs and outputs.

const codeOf = async promise => {
  try {
    return `fine: ${await promise}`;
  } catch (error) {
    return typeof error.code === 'string' ? error.code : error.name;
  }
};

export default async function start({ load, device }) {
  const model = await load({ device });
  const { w } = await model.params();
  const { 'opt/opt/ema/w': ema } = await model.state();
  return {
    w: Array.from(w),
    ema: Array.from(ema),
    picked: Array.from((await model.pick({ ids: Int32Array.of(2, -1, 0) })).rows),
    range: await codeOf(model.pick({ ids: [0, 4, 0] })),
    dtype: await codeOf(model.pick({ ids: Float32Array.of(1, 2, 3) })),
    fraction: await codeOf(model.pick({ ids: [0.5, 1, 2] })),
    nothing: await model.forget(),
    store: await codeOf(model.store()),
  };
}
