// Refuses WGSL so deeply nested that a shader compiler (Deno's, for one) would crash instead of
// reporting an error. Mirrors bundle_files.py, which explains the limits.

import MAX from '../../runtime_py/wgcc_runtime/tables/wgsl_guard.json' with { type: 'json' };
import { fail } from '../core/errors.js';

// A line comment ends with its line; WGSL has seven line breaks.
const COMMENTS = /\/\/[^\n\v\f\r\x85\u2028\u2029]*|\/\*[\s\S]*?\*\//g;
const BRACKETS = /[([{)\]}]/g;
const OPERATORS = /[-+*/%&|^!~<>=.([]/g;

/** @param {string} source @param {string} file */
export function guardWgsl(source, file) {
  const text = source.replace(COMMENTS, ' ');
  const statements = text.split(/[;{}]/);
  if (
    nesting(text) > MAX.nesting ||
    statements.length > MAX.statements ||
    count(text, /\belse\b/g) > MAX.else ||
    statements.some(statement => count(statement, OPERATORS) > MAX.operators)
  )
    fail('kernel', file, 'is too deeply nested, or too long, for GPU drivers');
}

/** @param {string} text */
function nesting(text) {
  let depth = 0;
  let deepest = 0;
  for (const [bracket] of text.matchAll(BRACKETS)) {
    depth += '([{'.includes(bracket) ? 1 : -1;
    deepest = Math.max(deepest, depth);
  }
  return deepest;
}

/** @param {string} text @param {RegExp} pattern */
function count(text, pattern) {
  return text.match(pattern)?.length ?? 0;
}
