// Whether a pattern can take long: `RegExp` tries one way after the other to match a text, and a
// pattern of a foreign file may have exponentially many. Mirrors pattern_cost.py, which has the
// reasons.

/**
 * @typedef {object} Item a character or a group, `low` to `high` times
 * @property {string} kind how a group begins; '' for a character
 * @property {Item[][]} branches
 * @property {number} low
 * @property {number} high
 * @typedef {{ways: number, tried: number}} Cost the ways to match something, and how many
 *   repetitions in it try all their lengths
 */

const LONGEST = 1_000_000;
const DEEPEST = 40;
/** The ways in which optional parts, alternatives and counts can be combined. */
const MOST_WAYS = 1000;
/** A quantifier with a higher limit is one without a limit. */
const FEW = 100;
const WIDEST = 10_000;
const CLASS = /\[\^?(?:\\[\s\S]|[^\]\\])*\]/uy;
const QUANTIFIER = /(?:([*+?])|\{(\d{1,4})(?:(,)(\d{0,4}))?\})(\??)/uy;
const GROUP = /\((\?:|\?=|\?!|\?<=|\?<!)/uy;
/** @type {Record<string, [number, number]>} */
const LIMITS = { '*': [0, Infinity], '+': [1, Infinity], '?': [0, 1] };

/** Throws an `Error` that says what may take long. @param {string} pattern */
export function checkPattern(pattern) {
  if (pattern.length > LONGEST) refuse(`a pattern of more than ${LONGEST} characters`);
  for (const branch of new Parser(pattern).whole()) checkSequence(branch, false, false);
}

/** For a pattern that is compared with one character after the other. @param {string} pattern */
export function checkClass(pattern) {
  CLASS.lastIndex = 0;
  if (CLASS.exec(pattern)?.[0] !== pattern) refuse('white space that is no class of characters');
}

/**
 * @param {Item[]} items @param {boolean} fails whether what follows can fail
 * @param {boolean} isBehind whether it is inside a look-behind @returns {Cost}
 */
function checkSequence(items, fails, isBehind) {
  let ways = 1;
  let tried = 0;
  let canFail = fails;
  for (const item of items.toReversed()) {
    const more = checkItem(item, canFail, isBehind);
    ways *= more.ways;
    tried += more.tried;
    if (ways > MOST_WAYS) refuse('optional parts that can be combined in too many ways');
    if (tried > 1) refuse('two repetitions before something that can fail');
    canFail ||= itemCanFail(item);
  }
  return { ways, tried };
}

/** @param {Item} item @param {boolean} fails @param {boolean} isBehind @returns {Cost} */
function checkItem(item, fails, isBehind) {
  const { kind, branches, low, high } = item;
  if (isBehind && low !== high) refuse('a look-behind of several widths');
  if (kind && high > 1) widthOf(item);
  if (high > FEW) return { ways: 1, tried: fails ? 1 : 0 };
  if (!kind || high > 1) return { ways: fails ? high - low + 1 : 1, tried: 0 };
  const isLook = kind !== '?:';
  const behind = isBehind || kind.startsWith('?<');
  const costs = branches.map(branch => checkSequence(branch, fails || isLook, behind));
  return {
    ways: costs.reduce((sum, { ways }) => sum + ways, low ? 0 : 1),
    tried: Math.max(0, ...costs.map(({ tried }) => tried)),
  };
}

/** @param {Item} item @returns {boolean} */
function itemCanFail({ kind, branches, low }) {
  if (!low) return false;
  return kind !== '?:' || branches.every(branch => branch.some(itemCanFail));
}

/** The characters of one repetition of a group. @param {Item} item @returns {number} */
function widthOf({ kind, branches }) {
  let width = 0;
  const isPlain = branches[0].every(
    part => part.low === part.high && ['', '?:'].includes(part.kind),
  );
  if (isPlain && branches.length === 1)
    for (const part of branches[0]) width += part.low * (part.kind ? widthOf(part) : 1);
  if (!(width > 0 && width <= WIDEST) || kind !== '?:')
    refuse('a repetition of a group that has no fixed width');
  return width;
}

/** Reads what the compiler writes: characters, classes, groups, quantifiers. */
class Parser {
  #pattern;
  #at = 0;
  #depth = 0;

  /** @param {string} pattern */
  constructor(pattern) {
    this.#pattern = pattern;
  }

  /** @returns {Item[][]} */
  whole() {
    const branches = this.#branches();
    if (this.#at < this.#pattern.length) refuse('a `)` without a `(`');
    return branches;
  }

  #branches() {
    /** @type {Item[][]} */
    const branches = [[]];
    while (this.#at < this.#pattern.length && this.#pattern[this.#at] !== ')')
      if (this.#pattern[this.#at] === '|') {
        this.#at++;
        branches.push([]);
      } else branches[branches.length - 1].push(this.#item());
    return branches;
  }

  /** @returns {Item} */
  #item() {
    const isGroup = this.#pattern[this.#at] === '(';
    const { kind, branches } = isGroup ? this.#group() : { kind: '', branches: [] };
    if (!isGroup) this.#character(this.#pattern[this.#at]);
    const [low, high] = this.#quantifier();
    return { kind, branches, low, high };
  }

  #group() {
    const opened = this.#take(GROUP);
    if (!opened || this.#depth === DEEPEST)
      return refuse('a group of another kind, or groups inside each other too deeply');
    this.#depth++;
    const branches = this.#branches();
    if (this.#at === this.#pattern.length) refuse('a `(` without a `)`');
    this.#at++;
    this.#depth--;
    return { kind: opened[1], branches };
  }

  /** @param {string} letter */
  #character(letter) {
    if (letter === '[') {
      if (!this.#take(CLASS)) refuse('a `[` without a `]`');
    } else if (letter === '\\') {
      const pair = this.#pattern.slice(this.#at, this.#at + 2);
      if (/\\[\p{L}\p{N}]/u.test(pair)) refuse(`\`${pair}\``);
      this.#at += 2;
    } else {
      if ('*+?{}^$.'.includes(letter)) refuse(`\`${letter}\` without a backslash`);
      // A character beyond U+FFFF is one item, of two units.
      this.#at += /** @type {number} */ (this.#pattern.codePointAt(this.#at)) > 0xffff ? 2 : 1;
    }
  }

  /** @returns {[number, number]} */
  #quantifier() {
    const found = this.#take(QUANTIFIER);
    if (!found) return [1, 1];
    if ('*+?{'.includes(this.#pattern[this.#at] ?? ' ')) refuse('a quantifier of a quantifier');
    const [, sign, least, comma, most] = found;
    if (sign) return LIMITS[sign];
    const low = Number(least);
    if (!comma) return [low, low];
    const high = most ? Number(most) : Infinity;
    if (high < low) refuse('a quantifier whose limits are swapped');
    return [low, high];
  }

  /** @param {RegExp} part what comes next, if it does */
  #take(part) {
    part.lastIndex = this.#at;
    const match = part.exec(this.#pattern);
    if (match) this.#at = part.lastIndex;
    return match;
  }
}

/** @param {string} what @returns {never} */
function refuse(what) {
  throw new Error(what);
}
