// A workbench in an address: programs, the one that is open, and the tab, compressed. What an address
// holds can only fill the editor; nothing of it runs before somebody presses Train.

import { bench } from './state.js';

/** Characters of an address, and bytes of programs, that are read. */
const LONGEST = 200_000;
export const MOST_BYTES = 1_000_000;
export const MOST_FILES = 20;
const KEPT = 'wgcc-workbench';
/** How addresses with programs begin. */
const START = '#m=';

/** @param {ReadableStream} stream @param {any} through @returns {Promise<Uint8Array>} */
async function bytesThrough(stream, through) {
  const reader = stream.pipeThrough(through).getReader();
  const parts = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > MOST_BYTES) throw new Error('the address holds too much');
    parts.push(value);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

const content = () => {
  const { files, main, tab, capture, sizes, run } = bench;
  return { files, main, tab, capture, sizes, run };
};

/** In portions, because a function takes only so many arguments. @param {Uint8Array} bytes */
export function base64(bytes) {
  let characters = '';
  for (let at = 0; at < bytes.length; at += 32_768)
    characters += String.fromCharCode(...bytes.subarray(at, at + 32_768));
  return btoa(characters);
}

/** The part of the address after `#`. */
export async function addressOf() {
  const data = new TextEncoder().encode(JSON.stringify(content()));
  const stream = new Blob([data]).stream();
  const packed = await bytesThrough(stream, new CompressionStream('deflate-raw'));
  const text = base64(packed).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
  if (text.length > LONGEST)
    throw new Error('These programs are too long for an address: take them away as files.');
  return `${START}${text}`;
}

/** Whether an address was to hold programs. @param {string} hash */
export const isShared = hash => hash.startsWith(START);

/** What an address holds, if it is whole and of bounded size. @param {string} hash */
export async function readAddress(hash) {
  const text = /^#m=([\w-]+)$/.exec(hash)?.[1];
  if (!text || text.length > LONGEST) return null;
  try {
    const packed = Uint8Array.from(
      atob(text.replaceAll('-', '+').replaceAll('_', '/')),
      character => character.charCodeAt(0),
    );
    const stream = new Blob([packed]).stream();
    const data = await bytesThrough(stream, new DecompressionStream('deflate-raw'));
    return checked(JSON.parse(new TextDecoder().decode(data)));
  } catch {
    return null;
  }
}

/** Only what a workbench would have written. @param {any} value */
function checked(value) {
  const files = Object.entries(value?.files ?? {}).slice(0, MOST_FILES);
  const isPlain = files.every(([name, text]) => isName(name) && typeof text === 'string');
  const isProgram = files.some(([name]) => name.endsWith('.wg'));
  if (!isProgram || !isPlain || !Object.hasOwn(value.files, value.main)) return null;
  return {
    files: Object.fromEntries(files),
    main: String(value.main),
    tab: String(value.tab ?? 'Run'),
    capture: globsOf(value.capture),
    sizes: sizesOf(value.sizes),
    run: /^[\w=&.%-]{1,200}$/.test(value.run) ? String(value.run) : '',
  };
}

/** @param {unknown} value @returns {string[]} */
const globsOf = value =>
  Array.isArray(value) ? value.filter(glob => /^[\w.*?[\]:/-]{1,80}$/.test(glob)).slice(0, 50) : [];

/** @param {any} value @returns {Record<string, number>} */
function sizesOf(value) {
  const isSize = (/** @type {[string, any]} */ [name, size]) =>
    /^[A-Za-z_]\w{0,60}$/.test(name) && Number.isSafeInteger(size) && size > 0 && size < 2 ** 31;
  return Object.fromEntries(
    Object.entries(value ?? {})
      .slice(0, 100)
      .filter(isSize),
  );
}

/** Programs, and what they read: kernels of their own, vocabularies. @param {string} name */
export const isName = name => /^[\w-]{1,60}\.(wg|wgsl|json|txt)$/.test(name);

/** A frame in another page neither changes nor shows what is kept for the next visit. */
const isFrame = () => new URLSearchParams(location.search).has('embed');

/** Keeps the programs for the next visit. */
export function keep() {
  if (isFrame()) return;
  try {
    localStorage.setItem(KEPT, JSON.stringify(content()));
  } catch {
    // A browser may forbid it, or its storage may be full.
  }
}

export function recall() {
  if (isFrame()) return null;
  try {
    return checked(JSON.parse(localStorage.getItem(KEPT) ?? 'null'));
  } catch {
    return null;
  }
}
