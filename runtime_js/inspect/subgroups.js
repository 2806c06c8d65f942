// Reductions by subgroup operations, on devices that have them. Mirrors subgroups.py, which
// explains it, text by text.

import { mapRecord } from '../core/records.js';

/** @import { Machine } from '../core/machine.js' */
/**
 * @typedef {object} Reduction of what `lanes` have stored in an array, to its first `end` elements
 * @property {string} array
 * @property {string} kind of its elements
 * @property {string} pair what `a` and `b` are together
 * @property {number} lanes
 * @property {number} end
 */

/** Blocks for which loads are written out; blocks of 8 and 4 use a loop. */
const UNROLLED = [32, 16];
/** Lanes of workgroups that reduce. */
const LANES = [64, 128, 256];
const HALVES = [16, 8, 4, 2, 1];
const TREE =
  /for \(var half = (\w+) \/ 2u; half >=? (\w+); half \/= 2u\) \{\s+workgroupBarrier\(\);\s+if \(lane < half\) \{([^}]*)\}\s+\}\s+(?=workgroupBarrier)/g;
const STEP = /(\w+)\[lane\] = ([^;]*);/g;
const MAIN = /fn main\(([^{]*)\{/;
const MEMBER = '@builtin(subgroup_invocation_id) wg_id: u32, @builtin(subgroup_size) wg_size: u32';
const BLOCK = `
var<private> wg_block: u32;
var<private> wg_member: u32;
var<private> wg_first: u32;

// Blocks of 32 or fewer invocations of a subgroup; of 1, unless all of them are there.
fn wg_find_block(id: u32, size: u32) {
  let block = min(size, 32u);
  wg_member = id % block;
  wg_first = id - wg_member;
  let mask = (0xffffffffu >> (32u - block)) << (wg_first % 32u);
  let whole = (subgroupBallot(true)[id / 32u] & mask) == mask;
  wg_block = select(1u, block, subgroupAll(whole && block >= 4u));
}
`;

/** The smallest kernel with such a reduction. */
const PROBE = `
const LANES = 64u;
var<workgroup> found: array<f32, LANES>;

@compute @workgroup_size(LANES)
fn main(@builtin(local_invocation_index) lane: u32) {
  found[lane] = f32(lane);
  for (var half = LANES / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) { found[lane] = found[lane] + found[lane + half]; }
  }
  workgroupBarrier();
  let sum = found[0];
}
`;

/**
 * Kernels for a device with subgroups; as they are, if its driver refuses to compile such kernels.
 * @param {Machine} machine @param {Record<string, string>} texts by file
 */
export async function kernelsFor({ gpu, adapter }, texts) {
  adapter.subgroups = await compiles(gpu, withSubgroups(PROBE));
  return adapter.subgroups ? mapRecord(texts, withSubgroups) : texts;
}

/** @param {GPUDevice} gpu @param {string} code */
async function compiles(gpu, code) {
  gpu.pushErrorScope('validation');
  const pipeline = gpu.createComputePipelineAsync({
    layout: 'auto',
    compute: { module: gpu.createShaderModule({ code }), entryPoint: 'main' },
  });
  const isMade = await pipeline.then(
    () => true,
    () => false,
  );
  // A lost device is reported by what follows.
  const error = await gpu.popErrorScope().catch(() => null);
  return isMade && !error;
}

/**
 * The kernel with reductions by subgroup operations; as it is, if it has none that are known.
 * @param {string} text
 */
export function withSubgroups(text) {
  const found = reductionsOf(text);
  if (!found.length) return text;
  let changed = text.replace(TREE, '');
  let functions = BLOCK;
  for (const one of found) {
    const read = RegExp(`= ${one.array}\\[(\\w+)\\];`, 'g');
    changed = changed.replace(read, `= wg_${one.array}($1);`);
    functions += functionsOf(one) + reducer(one);
  }
  const main = `fn main(${MEMBER}, $1{\n  wg_find_block(wg_id, wg_size);`;
  return `enable subgroups;\n${changed.replace(MAIN, main)}${functions}`;
}

/** @param {string} text @returns {Reduction[]} */
function reductionsOf(text) {
  const found = [];
  for (const [, lanes, end, steps] of text.matchAll(TREE))
    for (const [, array, combine] of steps.matchAll(STEP)) {
      const kind = text.match(`var<workgroup> ${array}: array<(\\w+), ${lanes}>;`)?.[1] ?? '';
      const ofMine = combine.replaceAll(`${array}[lane]`, 'a');
      const pair = ofMine.replaceAll(`${array}[lane + half]`, 'b');
      found.push({ array, kind, pair, lanes: sizeOf(text, lanes), end: sizeOf(text, end) });
    }
  const isKnown =
    found.every(({ kind, lanes }) => kind && LANES.includes(lanes)) && MAIN.test(text);
  return isKnown && new Set(found.map(({ array }) => array)).size === found.length ? found : [];
}

/**
 * Of a constant of the kernel; halves down to one end at the literal 0u.
 * @param {string} text @param {string} name
 */
function sizeOf(text, name) {
  return Number(text.match(`const ${name} = (\\d+)u;`)?.[1] ?? 1);
}

/** @param {Reduction} reduction */
function functionsOf({ array, kind, pair, lanes }) {
  const name = `wg_${array}`;
  return `
fn ${name}_pair(a: ${kind}, b: ${kind}) -> ${kind} { return ${pair}; }

// Every \`step\`-th element, by halves.
fn ${name}_some(first: u32, step: u32) -> ${kind} {
  var stack: array<${kind}, 9>;
  var depth = 0u;
  let count = ${lanes}u / step;
  for (var i = 0u; i < count; i++) {
    var x = ${array}[first + step * (reverseBits(i) >> (countLeadingZeros(count) + 1u))];
    for (var ones = i; ones % 2u == 1u; ones /= 2u) {
      depth--;
      x = ${name}_pair(stack[depth], x);
    }
    stack[depth] = x;
    depth++;
  }
  return stack[0];
}
`;
}

/** The function that gives element `own` of the result. @param {Reduction} reduction */
function reducer(reduction) {
  const { array, kind, end } = reduction;
  const name = `wg_${array}`;
  // Shuffles take numbers only.
  const number = kind === 'bool' ? 'u32' : kind;
  const start = UNROLLED.filter(block => block > end).map(
    block => `if (wg_block == ${block}u) { x = ${tree(reduction, 0, block)}; } else `,
  );
  const some = `select(own, wg_member, wg_block > ${end}u), max(wg_block, ${end}u)`;
  // All invocations shuffle, if they need it or not: shuffles must be in uniform control flow.
  const shuffles = HALVES.filter(half => half >= end).map(
    half => `  y = ${kind}(subgroupShuffleXor(${number}(x), ${half}u));
  if (wg_block > ${half}u) { x = ${name}_pair(x, y); }
`,
  );
  return `
fn ${name}(own: u32) -> ${kind} {
  var x: ${kind};
  var y: ${kind};
  ${start.join('')}{ x = ${name}_some(${some}); }
${shuffles.join('')}  y = ${kind}(subgroupShuffle(${number}(x), wg_first + own));
  return select(x, y, wg_block > ${end}u);
}
`;
}

/**
 * What the elements of an invocation from number `at` on are together.
 * @param {Reduction} reduction @param {number} at @param {number} half @returns {string}
 */
function tree(reduction, at, half) {
  const { array, lanes } = reduction;
  if (half === lanes) return `${array}[wg_member + ${at}u]`;
  const [left, right] = [at, at + half].map(place => tree(reduction, place, 2 * half));
  return `wg_${array}_pair(${left}, ${right})`;
}
