// What a page says if the model could not be loaded.

/** Whether there is no WebGPU, or no adapter. */
const lacksWebGpu = error => error.code === 'no-webgpu' || error.code === 'no-adapter';

/** The runtime's advice for this browser; a page from http can also be saved. */
function reasonOf(error) {
  if (!lacksWebGpu(error)) return error.message;
  const advice = error.message.replace(/^[\w-]+: /, '').replace(/\. Or: .*/, '');
  const saving = isSecureContext ? '' : ': save it and open the file';
  return `This page needs WebGPU: ${advice}${saving}.`;
}
