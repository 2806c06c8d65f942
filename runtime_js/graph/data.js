// What the page holds: entries, their stages, the source and the kernels, as the compiler wrote them.

/**
 * @typedef {{ title: string, detail: string, kind: 'source' | 'step' | 'result', name: string, at: string, kernel: string, place: string }} Box
 * @typedef {{ name: string, boxes: Box[], arrows: [number, number][] }} Stage `arrows`: numbers of boxes
 * @typedef {{ name: string, stages: Stage[] }} Entry
 * @typedef {{ file: string, lines: string[], kernels: Record<string, string>, entries: Entry[], stage: string }} Page
 */

/** Boxes that several stages have are written once. @param {string} text @returns {Page} */
export function readPage(text) {
  const raw = JSON.parse(text);
  const entries = raw.entries.map((/** @type {any} */ entry) => {
    const boxes = entry.boxes.map((/** @type {any[]} */ fields) => readBox(fields));
    return {
      name: entry.name,
      stages: entry.stages.map((/** @type {any} */ s) => readStage(s, boxes)),
    };
  });
  return { ...raw, entries };
}

/** @param {any[]} fields @returns {Box} */
function readBox([title, detail, kind, name, at, kernel, place]) {
  return { title, detail, kind, name, at, kernel, place };
}

/** @param {any} raw @param {Box[]} boxes @returns {Stage} */
function readStage(raw, boxes) {
  /** @type {[number, number][]} */
  const arrows = [];
  for (let i = 0; i < raw.arrows.length; i += 2) arrows.push([raw.arrows[i], raw.arrows[i + 1]]);
  return { name: raw.name, boxes: raw.boxes.map((/** @type {number} */ n) => boxes[n]), arrows };
}
