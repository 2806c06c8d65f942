// Elements of the page: found by their ids, made, and filled with what a function draws.

import { problemWords } from './problems.js';

/** @typedef {Node | string | number | null | undefined | false} Child what is false is left out */

/** The element with an id; the page's HTML says of which kind it is. @param {string} id @returns {any} */
export const $ = id => document.getElementById(id);

/**
 * A new element. Properties with a dash in their names are attributes.
 * @template {keyof HTMLElementTagNameMap} Tag @param {Tag} tag @param {Child | Child[]} [children]
 * @param {Record<string, any>} [properties] @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, children = [], properties = {}) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties))
    if (name.includes('-')) element.setAttribute(name, value);
    else Reflect.set(element, name, value);
  return put(element, children);
}

/**
 * Replaces what is in an element, or in the one with this id.
 * @template {Element} Kind @param {Kind | string} target @param {Child | Child[]} children
 * @returns {Kind}
 */
export function put(target, children) {
  const element = typeof target === 'string' ? $(target) : target;
  const shown = [children].flat().filter(child => child || child === 0);
  element.replaceChildren(...shown.map(child => (child instanceof Node ? child : `${child}`)));
  return element;
}

/** @param {Record<string, unknown>} visible whether each element is, by id */
export function show(visible) {
  for (const [id, isVisible] of Object.entries(visible)) $(id).hidden = !isVisible;
}

/** Texts and names, which are between backticks. @param {string} text @returns {Child[]} */
export const withCode = text => text.split('`').map((part, i) => (i % 2 ? h('code', part) : part));

/** @param {string} text for the status line */
export const say = text => put('status', text);

/** A handler whose errors are said in the status line. @param {(event: any) => any} job */
export const guarded = job => async (/** @type {any} */ event) => {
  try {
    await job(event);
  } catch (error) {
    if (/** @type {any} */ (error).name !== 'AbortError') say(problemWords(error));
  }
};

/** Offers bytes or text as a file. @param {BlobPart} content @param {string} name */
export function download(content, name) {
  const url = URL.createObjectURL(new Blob([content]));
  const link = h('a', '', { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  // Some browsers read it only after the click.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/**
 * Asks in a dialog.
 * @param {string} question @param {string[]} answers
 * @returns {Promise<string | undefined>} the chosen answer; undefined if the dialog was left
 */
export function ask(question, answers) {
  const buttons = answers.map(value => h('button', value, { value }));
  const form = h('form', buttons, { method: 'dialog', className: 'row' });
  const dialog = h('dialog', [h('p', question), form]);
  document.body.append(dialog);
  dialog.showModal();
  return new Promise(done => {
    dialog.onclose = () => {
      dialog.remove();
      done(dialog.returnValue || undefined);
    };
  });
}
