// Loaded when a model first trains.

export { openRun, Run } from './run.js';
