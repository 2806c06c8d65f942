// What one stage changed of another: boxes are the same if they make the value of the same name.
/** @import { Stage } from './data.js' */

/** @typedef {'new' | 'changed' | 'gone' | ''} Change */

/**
 * @param {Stage} before @param {Stage} after
 * @returns {{ before: Change[], after: Change[] }} for each box of both
 */
export function changesBetween(before, after) {
  const old = texts(before);
  const young = texts(after);
  return {
    before: before.boxes.map(box => (young.has(keyOf(box)) ? '' : 'gone')),
    after: after.boxes.map(box => {
      const text = old.get(keyOf(box));
      if (text === undefined) return 'new';
      return text === young.get(keyOf(box)) ? '' : 'changed';
    }),
  };
}

/** @param {{ kind: string, name: string }} box */
const keyOf = box => `${box.kind} ${box.name}`;

/** What each box computes from what, by its key. @param {Stage} stage */
function texts(stage) {
  const inputs = stage.boxes.map(() => /** @type {string[]} */ ([]));
  for (const [from, to] of stage.arrows) inputs[to].push(stage.boxes[from].name);
  return new Map(
    stage.boxes.map((box, n) => [keyOf(box), `${box.title} ${box.detail} ${inputs[n].sort()}`]),
  );
}
