// The weights of the page's model, read from a GGUF file or from a folder that `wgcc import` wrote. They
// are given to `load` as a file in the form of a bundle's own weights, which is made piece by piece
// while it is read, so that it is never in memory as a whole.

import {
  asHalves,
  floatsOf,
  GgufFile,
  isGguf,
  PLACES,
} from '../../runtime_js/adapters/adapters.js';
import { sha256Hex } from '../../runtime_js/core/seal.js';
import { EIGHT_BITS, FOUR_BITS, fourBits, rowOfBytes } from './blocks.js';

const BASE = 'base.';
const WEIGHTS = 'weights.safetensors';
/** Rows of a table that are converted at once. */
const ROWS = 2048;
const ROLES = Object.fromEntries(Object.entries(PLACES).map(([role, place]) => [place, role]));
const VECTORS = {
  norm1: 'attn_norm',
  norm2: 'ffn_norm',
  'attn.q_norm': 'attn_q_norm',
  'attn.k_norm': 'attn_k_norm',
};
const TYPES = { f32: 'F32', u8: 'U8', i8: 'I8' };
const LENGTH_BYTES = 8;

/** A file that is not for this page; the message says what differs. */
export class WrongModel extends Error {}

/**
 * What `load({ weights })` takes, and the file that it comes from.
 * @param {File[]} files that the visitor gave @param {any} plan of the page's model
 * @param {{architecture: string, tokens: string}} facts
 */
export async function weightsIn(files, plan, facts) {
  const saved = files.find(file => file.name === WEIGHTS);
  if (saved) return { weights: await savedWeights(saved, plan), file: saved };
  const [file] = files;
  if (!(await isGguf(file)))
    throw new WrongModel(`${file.name} is no GGUF file, and no folder of wgcc import`);
  const gguf = await GgufFile.open(file);
  await checkModel(gguf, facts);
  return { weights: new MadeFile(sourcesOf(gguf, plan, facts)), file };
}

/** Parameters of the page's model that the visitor's file holds: all but corrections. */
function wanted(plan) {
  return Object.entries(plan.tensors).filter(
    ([name, { role }]) => role === 'param' && name.startsWith(BASE) && !/\.lora_[ab]$/.test(name),
  );
}

/** The file of a folder: its names get what they are called here, its bytes stay. */
async function savedWeights(file, plan) {
  const start = new DataView(await file.slice(0, LENGTH_BYTES).arrayBuffer());
  const length = Number(start.getBigUint64(0, true));
  if (!(length < file.size)) throw new WrongModel(`${file.name} is cut off`);
  const text = await file.slice(LENGTH_BYTES, LENGTH_BYTES + length).text();
  const { __metadata__: _, ...specs } = JSON.parse(text);
  const names = new Set(wanted(plan).map(([name]) => name.slice(BASE.length)));
  for (const [name, { shape }] of Object.entries(specs)) {
    const own = plan.tensors[BASE + name]?.shape;
    if (!own || `${own}` !== `${shape}`)
      throw new WrongModel(
        `${file.name}: ${name} is [${shape.join(', ')}], in this page's model ${own ? `[${own.join(', ')}]` : 'it is not there'}`,
      );
    names.delete(name);
  }
  if (names.size) throw new WrongModel(`${file.name} lacks ${[...names][0]}`);
  const renamed = Object.fromEntries(Object.entries(specs).map(([n, spec]) => [BASE + n, spec]));
  return new Blob([headerOf(renamed), file.slice(LENGTH_BYTES + length)]);
}

/** Facts that show at once that a file is of another model. */
async function checkModel({ metadata, name }, facts) {
  const architecture = metadata.get('general.architecture');
  if (metadata.get('general.type') === 'adapter')
    throw new WrongModel(`${name} is an adapter: open it below, once a model is there`);
  if (architecture !== facts.architecture)
    throw new WrongModel(
      `${name} is a model of the architecture ${architecture}, this page is for ${facts.architecture}`,
    );
  const tokens = metadata.get('tokenizer.ggml.tokens') ?? [];
  // If two tokens are the same, texts become the last.
  const ids = [...new Map(tokens.map((token, id) => [token, id]))].sort((a, b) => a[1] - b[1]);
  const list = ids.map(([token]) => token).join('\n');
  const digest = await sha256Hex(new TextEncoder().encode(list));
  if (digest !== facts.tokens)
    throw new WrongModel(`${name} has another vocabulary, of ${tokens.length} tokens`);
}

/** For each parameter its spec and what makes its bytes. */
function sourcesOf(gguf, plan, facts) {
  const head = Object.entries(plan.tensors).find(([name]) => name.endsWith('.attn.keys'));
  const size = facts.architecture === 'llama' ? head[1].shape.at(-1) : 0;
  const differing = [];
  const sources = wanted(plan).map(([name, { dtype, shape }]) => {
    try {
      return [name, { dtype, shape, pieces: sourceOf(gguf, plan, name, size) }];
    } catch (error) {
      if (!(error instanceof WrongModel)) throw error;
      differing.push(error.message);
      return [];
    }
  });
  const all = [...new Set(differing)];
  if (all.length) {
    const more = all.length > 3 ? `; and ${all.length - 3} more` : '';
    throw new WrongModel(`${gguf.name} does not fit: ${all.slice(0, 3).join('; ')}${more}`);
  }
  return Object.fromEntries(sources);
}

/** @returns {() => AsyncGenerator<Uint8Array>} */
function sourceOf(gguf, plan, name, headSize) {
  const [, place, part] = /^base\.(.*)\.(\w+)$/.exec(name);
  const [, block, inner] = /^blocks\.(\d+)\.(.*)$/.exec(place) ?? [];
  const role = ROLES[inner];
  const layer = names =>
    Object.fromEntries(
      names.map(n => [n, plan.tensors[`${BASE}${place}.${n}`]]).filter(([, t]) => t),
    );
  if (place === 'tok') return tableSource(gguf, layer(['w', 'scale']), part);
  if (place === 'norm') return vectorSource(gguf, 'output_norm.weight', plan.tensors[name].shape);
  if (place === 'head')
    return matrixSource(gguf, 'output.weight', layer(['w', 'scale', 'low']), part);
  if (inner in VECTORS)
    return vectorSource(gguf, `blk.${block}.${VECTORS[inner]}.weight`, plan.tensors[name].shape);
  if (!role) throw new WrongModel(`the page does not know where ${place} is in such files`);
  const turns = headSize && ['attn_q', 'attn_k'].includes(role) ? headSize : 0;
  const stored = `blk.${block}.${role}`;
  if (part === 'b') return vectorSource(gguf, `${stored}.bias`, plan.tensors[name].shape, turns);
  return matrixSource(gguf, `${stored}.weight`, layer(['w', 'scale', 'low']), part, turns);
}

function tensorOf(gguf, name, shape) {
  const tensor = gguf.tensors.get(name);
  if (!tensor) throw new WrongModel(`it has no ${name}`);
  if (`${tensor.shape}` !== `${shape}`)
    throw new WrongModel(
      `${name} is [${tensor.shape.join(', ')}], in this page's model [${shape.join(', ')}]`,
    );
  return tensor;
}

function vectorSource(gguf, name, shape, turns = 0) {
  const tensor = tensorOf(gguf, name, shape);
  return async function* () {
    const values = floatsOf(tensor.type.name, await gguf.read(tensor));
    if (!values) throw new WrongModel(`${name} has the type ${tensor.type.name}, not floats`);
    const turned = values.slice();
    values.forEach((value, i) => {
      turned[placeOfRow(i, turns)] = value;
    });
    yield bytesOf(turned);
  };
}

const placeOfRow = (row, size) => (size ? row - (row % size) + asHalves(row % size, size) : row);
const bytesOf = ({ buffer, byteOffset, byteLength }) =>
  new Uint8Array(buffer, byteOffset, byteLength);

/** The last matrix that was converted, since its parts are asked for one after the other. */
let converted = { key: '', parts: {} };

function matrixSource(gguf, name, layer, part, turns = 0) {
  const inputs = layer.low ? 2 * layer.w.shape[0] : layer.w.shape[0];
  const outputs = layer.w.shape[1];
  const tensor = tensorOf(gguf, name, [outputs, inputs]);
  const packed = layer.low ? 'four' : 'eight';
  const kind = layer.scale ? packed : 'float';
  const group = layer.scale && inputs / layer.scale.shape[0];
  checkType(tensor, kind, group);
  return async function* () {
    const key = `${gguf.name} ${name}`;
    if (converted.key !== key) {
      const bytes = await gguf.read(tensor);
      const sizes = { outputs, inputs, group, turns };
      converted = { key, parts: matrixParts(bytes, tensor.type, kind, sizes) };
      release(bytes);
    }
    yield bytesOf(converted.parts[part]);
  };
}

function matrixParts(bytes, type, kind, { outputs, inputs, group, turns }) {
  const place = row => placeOfRow(row, turns);
  if (kind === 'four') return fourBits(bytes, type, outputs, inputs, place);
  if (kind === 'float')
    return { w: transposed(floatsOf(type.name, bytes), outputs, inputs, place) };
  const w = new Int8Array(inputs * outputs);
  const scale = new Float32Array((inputs / group) * outputs);
  for (let row = 0; row < outputs; row++) {
    const own = rowOfBytes(bytes, type, row, inputs, group);
    const column = place(row);
    own.w.forEach((value, i) => {
      w[i * outputs + column] = value;
    });
    own.scale.forEach((value, i) => {
      scale[i * outputs + column] = value;
    });
  }
  return { w, scale };
}

function transposed(values, outputs, inputs, place) {
  const result = new Float32Array(values.length);
  for (let row = 0; row < outputs; row++)
    for (let i = 0; i < inputs; i++) result[i * outputs + place(row)] = values[row * inputs + i];
  return result;
}

/** A table has its rows as the file has them: some are converted at once. */
function tableSource(gguf, layer, part) {
  const [count, inputs] = layer.w.shape;
  const tensor = tensorOf(gguf, 'token_embd.weight', [count, inputs]);
  const group = layer.scale && inputs / layer.scale.shape[1];
  checkType(tensor, layer.scale ? 'eight' : 'float', group);
  const rowBytes = tensor.bytes / count;
  return async function* () {
    for (let first = 0; first < count; first += ROWS) {
      const rows = Math.min(ROWS, count - first);
      const bytes = await gguf.read(tensor, first * rowBytes, (first + rows) * rowBytes);
      if (!layer.scale) {
        yield bytesOf(floatsOf(tensor.type.name, bytes));
        continue;
      }
      const parts = Array.from({ length: rows }, (_, row) =>
        bytesOf(rowOfBytes(bytes, tensor.type, row, inputs, group)[part]),
      );
      release(bytes);
      yield new Uint8Array(await new Blob(parts).arrayBuffer());
    }
  };
}

const FLOATS = ['F32', 'F16', 'BF16'];

/** Whether the page's layers hold the very numbers of a type. */
function checkType({ name, type }, kind, group) {
  const kinds = {
    four: [FOUR_BITS.includes(type.name), 'weights of 4 bits'],
    eight: [EIGHT_BITS[type.name] % group === 0, `weights of 8 bits in groups of ${group}`],
    float: [FLOATS.includes(type.name), 'floats'],
  };
  const [fits, words] = kinds[kind];
  if (!fits) throw new WrongModel(`${name} is ${type.name}, in this page's model it has ${words}`);
}

/** A file that is made while it is read; with these members it is read as one by its stream. */
class MadeFile {
  constructor(sources) {
    const specs = {};
    let end = 0;
    for (const [name, { dtype, shape }] of Object.entries(sources)) {
      const length = shape.reduce((a, b) => a * b, 1) * (dtype === 'f32' ? 4 : 1);
      specs[name] = { dtype: TYPES[dtype], shape, data_offsets: [end, end + length] };
      end += length;
    }
    this.sources = sources;
    this.header = headerOf(specs);
    this.size = this.header.size + end;
  }

  /** No `ReadableStream`, which would read ahead: when a piece is asked for, the last one was used. */
  stream() {
    const pieces = this.pieces();
    return {
      getReader: () => ({ read: () => pieces.next(), cancel: async () => pieces.return() }),
    };
  }

  async arrayBuffer() {
    const copies = [];
    for await (const piece of this.pieces()) copies.push(piece.slice());
    return new Blob(copies).arrayBuffer();
  }

  async *pieces() {
    // An earlier reading may have ended in the middle.
    converted = { key: '', parts: {} };
    yield new Uint8Array(await this.header.arrayBuffer());
    for (const { pieces } of Object.values(this.sources))
      for await (const piece of pieces()) {
        yield piece;
        release(piece);
      }
    converted = { key: '', parts: {} };
  }
}

/** Frees memory at once: browsers collect hundreds of megabytes before they do. */
function release({ buffer }) {
  buffer.transfer?.(0);
}

/** Length and table of a safetensors file. */
function headerOf(specs) {
  const text = new TextEncoder().encode(JSON.stringify(specs));
  const padding = (LENGTH_BYTES - (text.length % LENGTH_BYTES)) % LENGTH_BYTES;
  const length = BigUint64Array.of(BigInt(text.length + padding));
  return new Blob([length, text, ' '.repeat(padding)]);
}
