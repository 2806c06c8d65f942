// What a page says to visitors: while the model is loaded, and about errors.

/**
 * By code of the runtime's errors, or by code and field; others are said as the runtime says them,
 * without their code.
 * @type {Record<string, string>}
 */
const PROBLEMS = {
  'device-lost': 'The GPU, or the worker that computes, was lost. This page opens it again.',
  'time-out': 'The GPU does not answer. Close other pages that use it, and reload this one.',
  closed: 'The model was closed. Reload the page to go on.',
  'bundle bundle':
    'A part of this page could not be loaded. Is the connection gone? Try again once it is back.',
};

/** What a visitor reads about an error. @param {any} error */
export function problemWords(error) {
  const text = `${error?.message ?? error}`;
  // Errors of the page itself are written for visitors.
  if (error?.name === 'Error' && !error.code) return text;
  if (typeof error?.code !== 'string') return sentence(`this page failed: ${text}`);
  const words = PROBLEMS[`${error.code} ${error.field}`] ?? PROBLEMS[error.code];
  return words ?? sentence(text.replace(`${error.code}: `, ''));
}

/** @param {string} text */
const sentence = text =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?:…]$/.test(text) ? '' : '.'}`;

/** @param {number} bytes */
export const megabytes = bytes => (bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0);

/**
 * Of weights and of values that are drawn, bytes are counted.
 * @param {{stage: string, done: number, total: number}} progress
 */
export function loadingWords({ stage, done, total }) {
  const doing = stage === 'values' ? 'Drawing' : 'Loading';
  if (stage !== 'weights' && stage !== 'values') return `${doing} ${stage}: ${done} of ${total}`;
  return `${doing} ${stage}: ${megabytes(done)} of ${megabytes(total)} MB`;
}

/** Whether there is no WebGPU, or no adapter. @param {any} error */
export const lacksWebGpu = error => error.code === 'no-webgpu' || error.code === 'no-adapter';

/** The runtime's advice for this browser; a page from http can also be saved. @param {any} error */
export function reasonOf(error) {
  if (!lacksWebGpu(error)) return problemWords(error);
  const advice = error.message.replace(/^[\w-]+: /, '').replace(/\. Or: .*/, '');
  const saving = isSecureContext ? '' : ': save it and open the file';
  return `This page needs WebGPU: ${advice}${saving}.`;
}

/** The browser asks before the page is left. @param {() => boolean} hasUnsavedWork */
export function askBeforeLeaving(hasUnsavedWork) {
  window.addEventListener('beforeunload', event => {
    if (hasUnsavedWork()) event.preventDefault();
  });
}
