// Files of tokens that somebody else wrote: a JSON list of [file, text] in; what becomes of opening
// each and encoding its text out.
import { readFileSync } from 'node:fs';
import { sha256Hex } from '../../runtime_js/core/seal.js';
import { openTokens } from '../../runtime_js/tokens/tokens.js';

const answers = [];
for (const [file, text] of JSON.parse(readFileSync(0, 'utf8'))) {
  const bytes = new TextEncoder().encode(file);
  try {
    const tokens = await openTokens({ sha256: await sha256Hex(bytes) }, () => bytes);
    tokens.encode(text);
    answers.push('encoded');
  } catch (error) {
    answers.push(error.code ?? `${error.stack}`);
  }
}
process.stdout.write(JSON.stringify(answers));
