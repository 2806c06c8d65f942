// Loaded when a model first trains.

export { Run } from './run.js';
