// Adapters as llama.cpp stores them: a GGUF file with two factors beside each corrected matrix.
// Mirrors wgcc/from_gguf/adapter_file.py.

import { fail } from '../core/errors.js';
import { floatsOf, GgufFile } from './gguf.js';
import { turned } from './peft.js';

/** @import { Adapter, Factors } from './adapter.js' */

const GGUF_FACTOR = /^blk\.(\d+)\.(\w+)\.weight\.lora_([ab])$/;
/** Roles of matrices, and where they are in a block. @type {Record<string, string>} */
export const PLACES = {
  attn_q: 'attn.wq',
  attn_k: 'attn.wk',
  attn_v: 'attn.wv',
  attn_output: 'attn.wo',
  ffn_gate: 'mlp.gate',
  ffn_up: 'mlp.up',
  ffn_down: 'mlp.down',
};
const ROLES = Object.fromEntries(Object.entries(PLACES).map(([role, place]) => [place, role]));
/** Whose heads rotate, and in which architectures neighbours are turned together. */
const ROTATED = ['attn_q', 'attn_k'];
const ROTATES_NEIGHBOURS = ['llama'];
const TEXT = 8;
const FLOAT = 6;
const ALIGNMENT = 32;

/** @param {Blob} blob @param {string} name @param {number} size of a head @returns {Promise<Adapter>} */
export async function readGguf(blob, name, size) {
  const file = await GgufFile.open(blob, name);
  const alpha = checkedAlpha(file);
  const turns = ROTATES_NEIGHBOURS.includes(file.metadata.get('general.architecture'));
  /** @type {Map<string, Record<string, {shape: number[], values: Float32Array}>>} */
  const pairs = new Map();
  for (const tensor of file.tensors.values()) {
    const [, block, role, part] = GGUF_FACTOR.exec(tensor.name) ?? [];
    if (!Object.hasOwn(PLACES, role ?? ''))
      file.refuse(`has a tensor ${tensor.name.slice(0, 120)}, which is no factor of a known layer`);
    const key = `${Number(block)}.${role}`;
    const values =
      floatsOf(tensor.type.name, await file.read(tensor)) ??
      file.refuse(`has ${tensor.name} as ${tensor.type.name}: factors are floats`);
    pairs.set(key, { ...pairs.get(key), [part]: { shape: tensor.shape, values } });
  }
  /** @type {Adapter} */
  const adapter = new Map();
  for (const [key, pair] of pairs) {
    const [block, role] = key.split('.');
    const head = turns && ROTATED.includes(role) ? size : 0;
    adapter.set(`blocks.${block}.${PLACES[role]}`, ggufFactors(file, key, pair, alpha, head));
  }
  return adapter;
}

/** @param {Adapter} adapter @param {string} architecture @param {number} size of a head */
export function ggufAdapter(adapter, architecture, size) {
  const [first] = adapter.values();
  const facts = {
    'general.type': 'adapter',
    'general.architecture': architecture,
    'adapter.type': 'lora',
    'adapter.lora.alpha': first.scale * first.rank,
  };
  /** @type {[string, number[], Float32Array][]} */
  const tensors = [];
  for (const [place, { a, b, inputs, outputs, rank, scale }] of adapter) {
    const [, block, ...layer] = place.split('.');
    const role = ROLES[layer.join('.')];
    // llama.cpp divides alpha by each layer's own rank.
    const times = Math.fround((scale * rank) / (first.scale * first.rank));
    const rows = turned(b, rank, outputs).map(value => value * times);
    const head = ROTATES_NEIGHBOURS.includes(architecture) && ROTATED.includes(role) ? size : 0;
    const name = `blk.${block}.${role}.weight.lora_`;
    tensors.push([`${name}a`, [inputs, rank], turned(a, inputs, rank)]);
    tensors.push([`${name}b`, [rank, outputs], reordered(rows, rank, head, asNeighbours)]);
  }
  return fileOf(facts, tensors);
}

/** @param {GgufFile} file @returns {number} */
function checkedAlpha(file) {
  const { metadata } = file;
  if (metadata.get('general.type') !== 'adapter') file.refuse('is a model, not an adapter');
  const kind = metadata.get('adapter.type');
  if (kind !== 'lora') file.refuse(`is an adapter of type ${kind}, not lora`);
  const alpha = metadata.get('adapter.lora.alpha');
  if (!(alpha > 0 && alpha < 1e6)) file.refuse(`has an alpha of ${alpha}, not a number above 0`);
  return alpha;
}

/**
 * @param {GgufFile} file @param {string} key
 * @param {Record<string, {shape: number[], values: Float32Array}>} pair
 * @param {number} alpha @param {number} head its size if rows are in the order of neighbours, or 0
 * @returns {Factors}
 */
function ggufFactors(file, key, { a, b }, alpha, head) {
  if (a?.shape.length !== 2 || b?.shape.length !== 2)
    file.refuse(`lacks a matrix lora_a or lora_b of blk.${key}`);
  const [[rank, inputs], [outputs, other]] = [a.shape, b.shape];
  if (rank !== other) file.refuse(`has factors of rank ${rank} and ${other} for blk.${key}`);
  if (head && outputs % head) file.refuse(`has ${outputs} outputs of blk.${key}: it is another's`);
  for (const { values } of [a, b])
    if (!values.every(Number.isFinite)) fail('weights', key, 'has numbers that are not finite');
  const rows = reordered(b.values, rank, head, asHalves);
  return {
    a: turned(a.values, rank, inputs),
    b: turned(rows, outputs, rank),
    inputs,
    outputs,
    rank,
    scale: alpha / rank,
  };
}

/** The place of row `i` of a head of `size` rows in the other order. @param {number} i @param {number} size */
export const asHalves = (i, size) => (i % 2) * (size / 2) + Math.floor(i / 2);
/** @param {number} i @param {number} size */
const asNeighbours = (i, size) => (i % (size / 2)) * 2 + Math.floor(i / (size / 2));

/**
 * @param {Float32Array} rows @param {number} width @param {number} head
 * @param {(i: number, size: number) => number} place
 */
function reordered(rows, width, head, place) {
  if (!head) return rows;
  const result = new Float32Array(rows.length);
  for (let i = 0; i < rows.length / width; i++) {
    const target = i - (i % head) + place(i % head, head);
    result.set(rows.subarray(i * width, (i + 1) * width), target * width);
  }
  return result;
}

/**
 * @param {Record<string, string | number>} facts
 * @param {[string, number[], Float32Array][]} tensors with sizes from the fastest axis
 */
function fileOf(facts, tensors) {
  const head = [bytesOfText('GGUF'), u32(3), u64(tensors.length), u64(Object.keys(facts).length)];
  for (const [key, value] of Object.entries(facts)) {
    head.push(withLength(key));
    if (typeof value === 'string') head.push(u32(TEXT), withLength(value));
    else head.push(u32(FLOAT), new Uint8Array(Float32Array.of(value).buffer));
  }
  let offset = 0;
  for (const [name, sizes, data] of tensors) {
    head.push(withLength(name), u32(sizes.length), ...sizes.map(u64), u32(0), u64(offset));
    offset += data.byteLength + padding(data.byteLength);
  }
  const parts = [joinedBytes(head), ...tensors.map(([, , data]) => new Uint8Array(data.buffer))];
  return joinedBytes(parts.flatMap(part => [part, new Uint8Array(padding(part.length))]));
}

const padding = (/** @type {number} */ length) => (ALIGNMENT - (length % ALIGNMENT)) % ALIGNMENT;
const bytesOfText = (/** @type {string} */ text) => new TextEncoder().encode(text);
const u32 = (/** @type {number} */ value) => new Uint8Array(Uint32Array.of(value).buffer);
const u64 = (/** @type {number} */ value) =>
  new Uint8Array(BigUint64Array.of(BigInt(value)).buffer);

/** @param {string} text */
function withLength(text) {
  const bytes = bytesOfText(text);
  return joinedBytes([u64(bytes.length), bytes]);
}

/** @param {Uint8Array[]} parts @returns {Uint8Array<ArrayBuffer>} */
function joinedBytes(parts) {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
