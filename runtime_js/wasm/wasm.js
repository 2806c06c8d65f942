// Loaded if a bundle runs as WebAssembly, because there is no GPU or the caller asked for it: the
// twin of its kernels, in separate workers.

export { openTwin } from './twin_machine.js';
