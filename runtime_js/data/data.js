// What people's data needs: scaling of what a model is called with, and of its predictions.

export { callPrepared } from './apply.js';
