// "did you mean": the name that somebody probably meant. Mirrors `did_you_mean` of errors.py.

/** Names that differ in more than this part of their letters are not meant. */
const LARGEST_DIFFERENCE = 0.4;

/** The end of a sentence about an unknown name. @param {string} name @param {string[]} names */
export function didYouMean(name, names) {
  const [closest] = names
    .map(known => ({
      known,
      difference: distance(name, known) / Math.max(name.length, known.length),
    }))
    .filter(({ difference }) => difference <= LARGEST_DIFFERENCE)
    .sort((a, b) => a.difference - b.difference);
  if (closest) return `; did you mean \`${closest.known}\`?`;
  return `; there are: ${names.slice(0, 12).join(', ') || 'none'}`;
}

/** Letters to change, add or leave out (Levenshtein). @param {string} a @param {string} b */
function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const above = row;
    row = [i];
    for (let j = 1; j <= b.length; j++) {
      const changed = above[j - 1] + Number(a[i - 1].toLowerCase() !== b[j - 1].toLowerCase());
      row.push(Math.min(changed, above[j] + 1, row[j - 1] + 1));
    }
  }
  return row[b.length];
}
