// Tokens of .wg files by the engine that VS Code reads TextMate grammars with: [start, end, scope] each.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const require = createRequire(join(process.env.NODE_FOLDER, 'from-here.js'));
const { INITIAL, Registry, parseRawGrammar } = require('vscode-textmate');
const oniguruma = require('vscode-oniguruma');
const [grammarPath, ...files] = process.argv.slice(2);

await oniguruma.loadWASM(
  readFileSync(require.resolve('vscode-oniguruma/release/onig.wasm')).buffer,
);
const registry = new Registry({
  onigLib: Promise.resolve({
    createOnigScanner: patterns => new oniguruma.OnigScanner(patterns),
    createOnigString: text => new oniguruma.OnigString(text),
  }),
  loadGrammar: async () => parseRawGrammar(readFileSync(grammarPath, 'utf8'), 'wg.json'),
});
const grammar = await registry.loadGrammar('source.wg');

function tokensOf(text) {
  const tokens = [];
  let rules = INITIAL;
  let start = 0;
  for (const line of text.split('\n')) {
    const result = grammar.tokenizeLine(line, rules);
    for (const token of result.tokens) {
      const end = Math.min(token.endIndex, line.length);
      tokens.push([start + token.startIndex, start + end, token.scopes.at(-1)]);
    }
    rules = result.ruleStack;
    start += line.length + 1;
  }
  return tokens;
}

const all = Object.fromEntries(files.map(file => [file, tokensOf(readFileSync(file, 'utf8'))]));
console.log(JSON.stringify(all));
