// Classes that a model knows, by name: data never gets the id of another class. A name that the
// model knows gets its id. A new name gets an id that has no name yet, if the model is trained with
// the data; else it is refused. Mirrors known_classes.py.

import { isOnlyNames } from '../core/class_names.js';
import { mapRecord, ownOf } from '../core/records.js';

/** @import { ModelForm, Port } from './form.js' */
/** @import { Source } from './source.js' */
/** @import { Plan } from '../core/plan.js' */
/** @import { Progress } from '../core/session.js' */
/**
 * @typedef {object} KnownModel a session, or what a page knows of one in a worker
 * @property {Plan} plan
 * @property {any} preparation
 * @property {boolean} hasOtherValues than those of the bundle
 * @property {Progress} progress
 */
/**
 * @typedef {{names: Set<string>, problem: 'class-spelling' | 'class-unknown',
 *   values: Record<string, any>}} Refusal `names` get no id; the problem with one of them
 */

const BLANKS = /[ \t\u00a0\r\n]/g;

/** What reading an input goes by. */
export class KnownClasses {
  /**
   * Only training gives ids to new names.
   * @param {string[]} names by id @param {Port} port @param {boolean} isTraining
   */
  constructor(names, port, isTraining) {
    this.names = names;
    this.isTraining = isTraining;
    const most = port.isFloat ? port.rowSize : (port.classCount ?? Infinity);
    /** How many ids have no name yet. */
    this.free = isTraining ? Math.max(most - names.length, 0) : 0;
  }

  /** Those that are not known. @param {string[]} names */
  newAmong(names) {
    const known = new Set(this.names);
    return names.filter(name => !known.has(name));
  }

  /** Why new names get no ids. @param {string[]} fresh @returns {Refusal | undefined} */
  refusal(fresh) {
    const alike = new Map(this.names.map(name => [folded(name), name]));
    const near = fresh.find(name => alike.has(folded(name)));
    if (near !== undefined) {
      const values = { known: alike.get(folded(near)) };
      return { names: new Set([near]), problem: 'class-spelling', values };
    }
    if (fresh.length <= this.free) return undefined;
    const several = fresh.length > 1 ? fresh : [];
    const values = { known: this.names, free: this.free, new: several, training: this.isTraining };
    return { names: new Set(fresh), problem: 'class-unknown', values };
  }

  /** All names by id, new ones after those that are known. @param {string[]} fresh @param {Source} source */
  withNew(fresh, source) {
    const first = this.names.length;
    if (fresh.length && first) {
      const ids = fresh.map((name, i) => `\`${name}\` is ${first + i}`);
      source.note('new-classes', { count: fresh.length, ids });
    }
    return [...this.names, ...fresh];
  }
}

/** Whether values are trained or given, not drawn. @param {KnownModel} model */
export function hasLearned({ plan, hasOtherValues, progress }) {
  const isDrawn = plan.weights?.seed !== undefined;
  return hasOtherValues || !isDrawn || Object.values(progress.steps).some(steps => steps > 0);
}

/**
 * The form with the names of the classes that the model knows, by input and id. A model that has
 * learned classes without names knows them by their numbers. One that has learned nothing is bound
 * by names alone that it was built with, not by data that it may be trained with.
 * @param {ModelForm} form @param {any} preparation @param {boolean} hasLearned
 */
export function knownForm(form, preparation, hasLearned) {
  if (preparation) {
    const isBound = hasLearned || isOnlyNames(preparation);
    return form.withClasses(isBound ? storedNames(preparation) : {});
  }
  return form.withClasses(hasLearned ? numberedClasses(form) : {});
}

/** @param {any} preparation @returns {Record<string, string[]>} */
function storedNames({ inputs }) {
  const named = Object.entries(inputs).filter(([, { classes }]) => classes);
  return Object.fromEntries(named.map(([name, { classes }]) => [name, classes]));
}

/** @param {ModelForm} form @returns {Record<string, string[]>} */
function numberedClasses({ entries }) {
  const trained = Object.values(entries).filter(({ training }) => training);
  const ports = trained.flatMap(({ inputs, rows }) => rows.map(name => inputs[name]));
  const known = ports.filter(({ takesClasses, classCount }) => takesClasses && classCount);
  return Object.fromEntries(known.map(port => [port.name, numbered(port)]));
}

/** @param {Port} port */
function numbered({ dtype, classCount }) {
  if (dtype === 'bool') return ['false', 'true'];
  return Array.from({ length: classCount ?? 0 }, (_, id) => `${id}`);
}

/**
 * The preparation with the classes that were read.
 * @param {any} preparation @param {Record<string, any>} specs by input
 */
export function extended(preparation, specs) {
  const inputs = mapRecord(preparation.inputs, (/** @type {any} */ spec, name) => {
    const classes = ownOf(specs, name)?.classes;
    return classes ? { ...spec, classes } : spec;
  });
  return { ...preparation, inputs };
}

/** @param {string} name */
function folded(name) {
  return name.toLowerCase().replace(BLANKS, '');
}
