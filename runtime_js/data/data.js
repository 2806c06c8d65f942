// People's data: files become arrays for `fit`, and a preparation, which the model keeps to scale
// what it is called with and what it predicts.

export { callRaw } from './apply.js';
export { filesGiven } from './files_given.js';
export { formOf, ModelForm } from './form.js';
export { knownForm } from './known_classes.js';
export { readPasted } from './pasted.js';
export { averagedBitmap } from './picture_files.js';
export { isPictureSource, pictureRows } from './picture_rows.js';
export { DataSource, readData } from './read.js';
export { Averaged } from './resize.js';
export { Data } from './result.js';
