// Adapters of language models, and the GGUF files in which they and models travel: only bundles with
// tokens have this file, and it is loaded when an adapter is first read or written.

export { loadAdapter, mergeAdapter, saveAdapter } from './adapter.js';
export { floatsOf, GgufFile, isGguf } from './gguf.js';
export { asHalves, PLACES } from './gguf_adapter.js';
export { tensorFile } from './tensor_file.js';
