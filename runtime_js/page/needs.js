// What a page says if the model could not be loaded.

/** Whether there is no WebGPU, or no adapter. */
const lacksWebGpu = error => error.code === 'no-webgpu' || error.code === 'no-adapter';

function reasonOf(error) {
  if (!lacksWebGpu(error)) return error.message;
  return isSecureContext
    ? 'This page needs WebGPU: open it in a current Chrome, Edge, Safari or Firefox.'
    : 'This page needs WebGPU, which browsers do not give to pages from http: save it and open the file.';
}
