// What a page tells its reader when the model could not be loaded.

const reasonOf = error =>
  !/^no-/.test(error.code)
    ? error.message
    : isSecureContext
      ? 'This page needs WebGPU: open it in a current Chrome, Edge, Safari or Firefox.'
      : 'This page needs WebGPU, which browsers do not give to pages from http: save it and open the file.';
