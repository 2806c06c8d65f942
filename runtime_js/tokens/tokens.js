// Text as ids of tokens, for models whose `vocab` is a file of byte pairs: only bundles of such
// models have this file, and it is loaded when text is first read or written.

import { fail, WgccError } from '../core/errors.js';
import { loadFiles, part } from '../core/parts.js';
import { sha256Hex } from '../core/seal.js';
import { FILE } from './patterns.js';
import { Tokenizer } from './tokenizer.js';

export { openChat } from './chat.js';
export { chatForm } from './chat_form.js';

/** @import { TokenVocab } from '../core/plan.js' */

/** Adapters of language models: only bundles that have this file have theirs. */
export const loadAdapters = () => part(import('../adapters/adapters.js'));

const MOST_BYTES = 2 ** 27;
/** Of the part of the file that is wgcc's own. */
const VERSION = 1;

/**
 * What reads and writes the text of a bundle.
 * @param {TokenVocab} vocab of the plan @param {(() => any) | undefined} place of the file
 * @returns {Promise<Tokenizer>}
 */
export async function openTokens({ sha256 }, place) {
  const { bytesAt, placeOf } = await loadFiles();
  const advice = 'copy it beside the scripts, or say where it is: load({baseUrl})';
  const found = await bytesAt(placeOf(place), { limit: MOST_BYTES, code: 'bundle', advice });
  const bytes = new Uint8Array(found ?? fail('bundle', FILE, 'is missing: build the bundle again'));
  if (bytes.length > MOST_BYTES || (await sha256Hex(bytes)) !== sha256)
    fail('bundle', FILE, 'was changed after the bundle was built: build it again');
  return opened(new TextDecoder().decode(bytes));
}

/** @param {string} text of the file */
async function opened(text) {
  try {
    const file = JSON.parse(text);
    if (file.model.wgcc.version === VERSION) return await Tokenizer.open(file);
  } catch (error) {
    if (error instanceof WgccError) throw error;
    fail('bundle', FILE, `is not in the form that wgcc writes (${error}): build the bundle again`);
  }
  return fail('bundle', FILE, 'was written by another version of wgcc: build the bundle again');
}
