// Pictures as data: one row per file, and classes from the names of folders or files. Mirrors
// pictures.py.

import { byCodePoints } from './classes.js';
import { extended, KnownClasses } from './known_classes.js';
import { findPictures, readPicture } from './picture_files.js';
import { layoutOf } from './resize.js';
import { Data } from './result.js';
import { checkRows, otherInputs } from './rows_left.js';

/** @import { SourceFile } from './files_given.js' */
/** @import { EntryForm, ModelForm, Port } from './form.js' */
/** @import { Options } from './options.js' */
/** @import { PictureFile } from './picture_files.js' */
/** @import { Layout } from './resize.js' */
/** @import { Source } from './source.js' */

/**
 * @param {SourceFile[]} given @param {Source} source @param {ModelForm} form
 * @param {EntryForm} entry @param {Options} options
 */
export async function readPictures(given, source, form, entry, options) {
  const others = otherInputs(entry, options.values ?? {}, source);
  const { image, labels } = pictureInputs(entry, source);
  const files = findPictures(given, source);
  checkRows(source, entry, files.length);
  const layout = /** @type {Layout} */ (layoutOf(image));
  const scale = image.isFloat ? 255 : 1;
  const inputs = { [image.name]: { kind: 'pictures', layout: layout.order, scale } };
  const arrays = { [image.name]: await picturesIn(files, image, layout, scale) };
  if (labels) {
    const prepared = options.preparation?.inputs[labels.name]?.classes;
    const names = prepared ?? form.classes[labels.name] ?? [];
    const known = names.length ? new KnownClasses(names, labels, entry.training) : undefined;
    const { spec, array } = classesOf(files, source, labels, known);
    Object.assign(inputs, { [labels.name]: spec });
    arrays[labels.name] = array;
  }
  const { preparation, missing = 'drop' } = options;
  return new Data({
    arrays: { ...arrays, ...others },
    preparation: preparation
      ? extended(preparation, inputs)
      : { version: 1, inputs, target: labels?.name ?? null, missing },
    rows: files.length,
    withRows: entry.rows,
    notes: source.notes,
  });
}

/**
 * The names of all classes, by their ids.
 * @param {PictureFile[]} files @param {Source} source @param {Port} port @param {KnownClasses} [known]
 */
function namesOf(files, source, port, known) {
  const names = [...new Set(files.map(({ label }) => label))].sort(byCodePoints);
  if (!known) {
    const most = port.isFloat ? port.rowSize : (port.classCount ?? Infinity);
    if (names.length > most)
      source.refuse('class-count', { count: names.length, classes: names, input: port.name, most });
    return names;
  }
  const fresh = known.newAmong(names);
  const refusal = known.refusal(fresh);
  const refused = refusal && files.find(({ label }) => refusal.names.has(label));
  if (refused) {
    const subject = `${refused.file.name} is of \`${refused.label}\``;
    source.refuse(refusal.problem, { subject, ...refusal.values });
  }
  return known.withNew(fresh, source);
}

/** The one input for pictures, and the one for their classes, if there is one. */
function pictureInputs(/** @type {EntryForm} */ entry, /** @type {Source} */ source) {
  const ports = entry.rows.map(name => entry.inputs[name]);
  const images = ports.filter(layoutOf);
  const others = ports.filter(port => !layoutOf(port));
  const labels = others.filter(port => port.takesClasses || port.rowShape.length === 1);
  if (images.length !== 1 || labels.length > 1 || labels.length < others.length) {
    const inputs = ports.map(port => `\`${port.name}\` ${port}`);
    source.refuse('picture-inputs', {
      entry: entry.name,
      inputs: inputs.length ? inputs : ['none'],
    });
  }
  return { image: images[0], labels: labels.at(0) };
}

/** @param {PictureFile[]} files @param {Port} port @param {Layout} layout @param {number} scale */
async function picturesIn(files, port, layout, scale) {
  const type = port.isFloat ? Float32Array : Int32Array;
  const rows = new type(files.length * port.rowSize);
  for (const [i, { file }] of files.entries())
    (await readPicture(file, layout)).write(rows, i * port.rowSize, scale);
  return Object.assign(rows, { shape: [files.length, ...port.rowShape] });
}

/**
 * @param {PictureFile[]} files @param {Source} source @param {Port} port
 * @param {KnownClasses} [known] @returns {{spec: Record<string, any>, array: any}}
 */
function classesOf(files, source, port, known) {
  const unlabelled = files.find(({ label }) => !label);
  if (unlabelled) source.refuse('no-label', { file: unlabelled.file.name });
  const names = namesOf(files, source, port, known);
  const byName = new Map(names.map((name, id) => [name, id]));
  const ids = Int32Array.from(files, ({ label }) => byName.get(label) ?? 0);
  const shape = [files.length, ...port.rowShape];
  if (!port.isFloat)
    return { spec: { kind: 'classes', classes: names }, array: Object.assign(ids, { shape }) };
  const array = new Float32Array(files.length * port.rowSize);
  ids.forEach((id, i) => {
    array[i * port.rowSize + id] = 1;
  });
  return { spec: { kind: 'one hot', classes: names }, array: Object.assign(array, { shape }) };
}
