// Loaded for calls with another number of rows than their entry, and for the option `validation`.

export { run } from './rows.js';
export { openValidation } from './validation.js';
