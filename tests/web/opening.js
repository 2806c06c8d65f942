// Options of `load`, and the end of a model.

const said = promise =>
  promise.then(
    () => 'fine',
    error => `${error.code} ${error.field}: ${error.message}`,
  );

export default async function opening({ load, WgccError, device: gpu }, { device = gpu }) {
  const events = [];
  const onProgress = ({ stage, done, total }) => stage === 'weights' && events.push([done, total]);
  const model = await load({ device, onProgress });
  const file = await model.save({ optimizer: false });
  const first = `${Object.values(await model.params())[0]}`;
  const read = async weights => {
    const other = await load({ device, weights });
    const [found] = Object.values(await other.params());
    other.dispose();
    return `${found}` === first;
  };
  const sources = [new Blob([file]), new File([file], 'a.safetensors'), file, file.slice().buffer];
  const from = [];
  for (const source of [...sources, await model.params()]) from.push(await read(source));
  const options = await said(load({ device, sed: 1 }));
  const error = await model.call('nothing', {}).catch(found => found);
  const foreign = Object.assign(new Error(''), { name: 'WgccError', code: 'shape' });
  const are = [error, foreign, new Error(''), undefined, {}].map(found => WgccError.is(found));
  const { asyncDispose } = Symbol;
  if (asyncDispose) await model[asyncDispose]();
  else model.dispose();
  return { events, from, options, are, closed: await said(model.params()) };
}
