// Bytes as GPT-2 writes them in its vocabulary: each of the 256 as a character that can be printed.

/** By byte. @type {string[]} */
const characters = [];
/** @type {Map<string, number>} */
const bytes = new Map();

/** Bytes that are themselves; the others are the characters from 256 on, in order. */
const isPrinted = (/** @type {number} */ byte) =>
  (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;

for (let byte = 0, others = 256; byte < 256; byte++) {
  characters[byte] = String.fromCharCode(isPrinted(byte) ? byte : others++);
  bytes.set(characters[byte], byte);
}

const encoder = new TextEncoder();
// Without `ignoreBOM`, U+FEFF at the beginning is dropped.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** @param {string} text */
export function utf8Of(text) {
  return encoder.encode(text);
}

/** Text as one character for each byte of UTF-8. @param {string} text */
export function toByteCharacters(text) {
  let found = '';
  for (const byte of utf8Of(text)) found += characters[byte];
  return found;
}

/** The text of tokens; bytes that are no UTF-8 become U+FFFD. @param {string[]} tokens */
export function fromByteCharacters(tokens) {
  return decoder.decode(Uint8Array.from(tokens.flatMap(bytesOfToken)));
}

/** One that holds other characters, as added tokens may, is plain text. @param {string} token */
function bytesOfToken(token) {
  const found = Array.from(token, letter => bytes.get(letter));
  return found.includes(undefined) ? Array.from(utf8Of(token)) : /** @type {number[]} */ (found);
}
