// Files that are chosen or dropped, also whole folders, for the card of the data.

import { DATA_SUFFIXES } from '../data/read.js';
import { $, guarded } from './elements.js';

/** @typedef {File & {path?: string}} PathFile a file with its path in a dropped folder */

/** The files of what was dropped. @param {DataTransfer} dropped @returns {Promise<PathFile[]>} */
async function droppedFiles({ items, files }) {
  // The list of items is empty after the event, so all are taken first.
  const entries = Array.from(items, item => item.webkitGetAsEntry?.()).filter(
    entry => entry !== null,
  );
  if (!entries.some(entry => entry.isDirectory)) return Array.from(files);
  const found = (await Promise.all(entries.map(filesInside))).flat();
  const roots = new Set(found.map(({ path }) => path?.split('/')[0]));
  // Several folders side by side are the classes of one.
  if (roots.size > 1) for (const file of found) file.path = `pictures/${file.path}`;
  return found;
}

/** @param {any} entry @returns {Promise<PathFile[]>} */
async function filesInside(entry) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    return [Object.assign(file, { path: entry.fullPath.slice(1) })];
  }
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    // A reader gives a part of the entries at a time.
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return found;
    for (const inside of some) found.push(...(await filesInside(inside)));
  }
}

/** @param {(files: PathFile[]) => any} takeFiles */
export function listenForFiles(takeFiles) {
  $('file').accept = [...DATA_SUFFIXES, 'image/*'].join();
  for (const [button, input] of [
    ['choose', 'file'],
    ['choose-folder', 'folder'],
  ]) {
    $(button).onclick = () => $(input).click();
    $(input).onchange = guarded(async ({ target }) => {
      const chosen = Array.from(target.files);
      // The same file can be chosen again, after it was changed.
      target.value = '';
      await takeFiles(chosen);
    });
  }
  // A file that is dropped beside the card would replace the page.
  document.addEventListener('dragover', event => {
    if (event.defaultPrevented) return;
    event.preventDefault();
    if (event.dataTransfer) event.dataTransfer.dropEffect = 'none';
  });
  const markDrop = (/** @type {string} */ mark) => {
    $('drop').className = mark;
  };
  $('data').ondragover = (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    markDrop('over');
  };
  $('data').ondragleave = () => markDrop('');
  $('data').ondrop = guarded(async event => {
    event.preventDefault();
    markDrop('');
    await takeFiles(await droppedFiles(event.dataTransfer));
  });
}
