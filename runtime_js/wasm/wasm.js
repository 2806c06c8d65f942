// Loaded where a bundle runs as WebAssembly, because there is no GPU or somebody asked for it: the
// twin of its kernels, in workers of its own.

export { openTwin } from './twin_machine.js';
