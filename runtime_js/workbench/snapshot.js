// The memory of a compiler that has started, kept by the browser: later visits begin with it. It
// belongs to one build of the site; whatever goes wrong with it, the compiler starts without.

/** The files that the memory was made of, by their digest. */
const MADE_OF = '__DIGEST__';
const CACHE = 'wgcc-workbench memory';
const key = new URL(`./memory-${MADE_OF}`, import.meta.url).href;

/** @returns {Promise<ArrayBuffer | null>} */
export async function keptMemory() {
  try {
    const kept = await (await caches.open(CACHE)).match(key);
    return kept ? await kept.arrayBuffer() : null;
  } catch {
    // Browsers have no cache in private windows, or on pages without a secure origin.
    return null;
  }
}

export const hasMemory = async () =>
  Boolean(await (await caches.open(CACHE)).match(key).catch(() => true));

/** In place of those of older sites. @param {Uint8Array} memory */
export async function keepMemory(memory) {
  await forgetMemory();
  await (await caches.open(CACHE)).put(key, new Response(/** @type {any} */ (memory)));
}

export const forgetMemory = () => caches.delete(CACHE).catch(() => false);

/** The heap is made as large as the memory before that is copied into it: Pyodide itself does not. @param {any} settings */
export async function enlarged(settings) {
  // @ts-expect-error - the path is of the site, not of the sources.
  const { default: create } = await import('./pyodide/pyodide.asm.mjs');
  const module = await create(settings);
  module._malloc(settings.INITIAL_MEMORY);
  return module;
}
