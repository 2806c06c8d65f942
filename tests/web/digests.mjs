// SHA-256 of texts, as the runtime computes it where browsers do not: JSON in, JSON out.
import { readFileSync } from 'node:fs';
import { sha256 } from '../../runtime_js/check/sha256.js';

const texts = JSON.parse(readFileSync(0, 'utf8'));
const bytesOf = text => new TextEncoder().encode(text);
process.stdout.write(JSON.stringify(texts.map(text => sha256(bytesOf(text)))));
