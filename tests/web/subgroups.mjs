// Kernels with reductions by subgroup operations, as pages write them: a list of texts in and out.
import { readFileSync } from 'node:fs';
import { withSubgroups } from '../../runtime_js/inspect/subgroups.js';

const texts = JSON.parse(readFileSync(0, 'utf8'));
process.stdout.write(JSON.stringify(texts.map(withSubgroups)));
