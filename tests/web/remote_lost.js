// A model in a worker whose GPU device is lost: the page hears of it, and can go on.

/** In the worker: the device that was opened last is destroyed when the page asks for it. */
const SPY = `
  const { requestDevice } = GPUAdapter.prototype;
  let device;
  GPUAdapter.prototype.requestDevice = async function (...given) {
    device = await requestDevice.apply(this, given);
    return device;
  };
  addEventListener('message', ({ data }) => {
    if (data === 'lose') device.destroy();
  });
`;

export default async function remoteLost({ load }, { data }) {
  const Own = globalThis.Worker;
  let worker;
  globalThis.Worker = class extends Own {
    constructor(url, options) {
      const text = `import ${JSON.stringify(new URL(url, location.href).href)};${SPY}`;
      super(URL.createObjectURL(new Blob([text], { type: 'text/javascript' })), options);
      worker = this;
    }
  };
  const stages = [];
  const onProgress = ({ stage }) => stages.push(stage);
  const model = await load({ device: 'webgpu', worker: true, onProgress });
  await model.fit(data, { steps: 3 });
  const before = await model.eval(data);
  let begin;
  const begun = new Promise(resolve => {
    begin = resolve;
  });
  const running = (async () => {
    for await (const _ of model.fit(data, { steps: 1e6, every: 1 })) begin();
  })().catch(({ code }) => code);
  await begun;
  worker.postMessage('lose');
  const { reason } = await model.lost;
  const codes = [await running, await model.eval(data).catch(({ code }) => code)];
  const heard = stages.length;
  const { steps: recovered, lost } = await model.recover();
  const after = await model.eval(data);
  const { steps } = await model.fit(data, { steps: 2 });
  model.dispose();
  return {
    reason,
    codes,
    isRestored: after.loss[0] === before.loss[0],
    steps,
    recovered: recovered.train,
    // As many as were made after the last `fit` that ended.
    lost: Math.sign(lost.train ?? 0),
    hearsAgain: stages.length > heard,
  };
}
