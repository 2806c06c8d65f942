// What a page says while the model is loaded, and if it could not be.

const megabytes = bytes => (bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0);

/** Of weights and of values that are drawn, bytes are counted. */
function loadingWords({ stage, done, total }) {
  const doing = stage === 'values' ? 'Drawing' : 'Loading';
  if (stage !== 'weights' && stage !== 'values') return `${doing} ${stage}: ${done} of ${total}`;
  return `${doing} ${stage}: ${megabytes(done)} of ${megabytes(total)} MB`;
}

/** Whether there is no WebGPU, or no adapter. */
const lacksWebGpu = error => error.code === 'no-webgpu' || error.code === 'no-adapter';

/** The runtime's advice for this browser; a page from http can also be saved. */
function reasonOf(error) {
  if (!lacksWebGpu(error)) return problemWords(error);
  const advice = error.message.replace(/^[\w-]+: /, '').replace(/\. Or: .*/, '');
  const saving = isSecureContext ? '' : ': save it and open the file';
  return `This page needs WebGPU: ${advice}${saving}.`;
}
