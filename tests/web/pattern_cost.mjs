// What the JavaScript runtime says of patterns: a JSON list in, a list of verdicts out.
import { readFileSync } from 'node:fs';
import { checkPattern } from '../../runtime_js/tokens/pattern_cost.js';

const verdictOf = pattern => {
  try {
    checkPattern(pattern);
    return 'accepted';
  } catch (error) {
    return error.message;
  }
};
process.stdout.write(JSON.stringify(JSON.parse(readFileSync(0, 'utf8')).map(verdictOf)));
