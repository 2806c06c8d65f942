// Two bundles in one app: whether they have one runtime.
import { WgccError as First } from '../bundle/index.js';
import { WgccError as Second } from '../second/index.js';

globalThis.results = First === Second;
