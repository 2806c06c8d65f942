// Adapters as PEFT stores them: adapter_config.json and adapter_model.safetensors. Mirrors
// peft_files.py.

import { fail } from '../core/errors.js';
import { tensorFile } from './tensor_file.js';

/** @import { Adapter, Factors } from './adapter.js' */
/** @import { Plain } from './tensor_file.js' */

/** PEFT's names of layers, and ours. @type {Record<string, string>} */
const LAYERS = {
  'self_attn.q_proj': 'attn.wq',
  'self_attn.k_proj': 'attn.wk',
  'self_attn.v_proj': 'attn.wv',
  'self_attn.o_proj': 'attn.wo',
  'mlp.gate_proj': 'mlp.gate',
  'mlp.up_proj': 'mlp.up',
  'mlp.down_proj': 'mlp.down',
};
const THEIRS = Object.fromEntries(Object.entries(LAYERS).map(([theirs, ours]) => [ours, theirs]));
const PEFT_FACTOR = /(?:^|\.)layers\.(\d+)\.(\w+\.\w+)\.lora_([AB])(?:\.\w+)?\.weight$/;
/** What other kinds of adapters have, and nothing here computes. */
const OTHER_KINDS = ['use_dora', 'modules_to_save', 'layer_replication', 'alora_invocation_tokens'];
const MOST_CONFIG = 2 ** 20;

/**
 * @param {Record<string, any>} tensors arrays with their shapes @param {string} text of the
 *   configuration @param {string} name in errors
 * @returns {Adapter}
 */
export function fromPeft(tensors, text, name) {
  const config = checkedConfig(text, name);
  /** @type {Map<string, Record<string, any>>} */
  const pairs = new Map();
  for (const [key, array] of Object.entries(tensors)) {
    const [, block, layer, part] = PEFT_FACTOR.exec(key) ?? [];
    if (!Object.hasOwn(LAYERS, layer ?? ''))
      fail(
        'weights',
        name,
        `has a tensor ${key.slice(0, 120)}, which is no factor of a known layer`,
      );
    const place = `blocks.${Number(block)}.${LAYERS[layer]}`;
    pairs.set(place, { ...pairs.get(place), [part]: array });
  }
  if (!pairs.size) fail('weights', name, 'holds no factors');
  return new Map(
    [...pairs].map(([place, pair]) => [place, peftFactors(place, pair, config, name)]),
  );
}

/** Both files, by name. @param {Adapter} adapter @param {string} base */
export function toPeft(adapter, base) {
  /** @type {Record<string, Plain>} */
  const tensors = {};
  const [first] = adapter.values();
  const rank = Math.max(...[...adapter.values()].map(factors => factors.rank));
  for (const [place, given] of adapter) {
    const { a, b, inputs, outputs, scale } = given;
    const [, block, ...layer] = place.split('.');
    const key = `base_model.model.model.layers.${block}.${THEIRS[layer.join('.')]}`;
    const times = Math.fround(scale / first.scale);
    // One rank is written for all layers.
    tensors[`${key}.lora_A.weight`] = {
      shape: [rank, inputs],
      data: turned(a, inputs, given.rank, rank),
    };
    const rows = new Float32Array(rank * outputs);
    rows.set(b.map(value => value * times));
    tensors[`${key}.lora_B.weight`] = { shape: [outputs, rank], data: turned(rows, rank, outputs) };
  }
  const targets = [...adapter.keys()].map(place => {
    const layer = THEIRS[place.split('.').slice(2).join('.')];
    return layer.split('.')[1];
  });
  const config = {
    peft_type: 'LORA',
    task_type: 'CAUSAL_LM',
    base_model_name_or_path: base,
    r: rank,
    lora_alpha: first.scale * rank,
    target_modules: [...new Set(targets)].sort(),
    lora_dropout: 0,
    bias: 'none',
    fan_in_fan_out: false,
    inference_mode: true,
  };
  return {
    'adapter_config.json': new TextEncoder().encode(`${JSON.stringify(config, null, 2)}\n`),
    'adapter_model.safetensors': tensorFile(tensors, { format: 'pt' }),
  };
}

/**
 * A matrix [rows, columns] as [columns, rows], filled up with zeros to `most` rows of the result.
 * @param {ArrayLike<number>} values @param {number} rows @param {number} columns
 */
export function turned(values, rows, columns, most = columns) {
  const result = new Float32Array(most * rows);
  for (let i = 0; i < rows; i++)
    for (let j = 0; j < columns; j++) result[j * rows + i] = values[i * columns + j];
  return result;
}

/** @param {string} text @param {string} name @returns {Record<string, any>} */
function checkedConfig(text, name) {
  let config;
  try {
    config = text.length > MOST_CONFIG ? null : JSON.parse(text);
  } catch (error) {
    fail('weights', name, `has a configuration that is no JSON: ${error}`);
  }
  if (config?.constructor !== Object)
    fail('weights', name, 'has a configuration that is no object');
  if (config.peft_type !== 'LORA')
    fail('weights', name, `is an adapter of type ${config.peft_type}, not LORA`);
  if ((config.bias ?? 'none') !== 'none') fail('weights', name, 'trains biases: not supported');
  for (const key of OTHER_KINDS)
    if (config[key]) fail('weights', name, `uses ${key}, which is not supported`);
  return config;
}

/**
 * @param {string} place @param {Record<string, any>} pair @param {Record<string, any>} config
 * @param {string} name @returns {Factors}
 */
function peftFactors(place, { A, B }, config, name) {
  if (A?.shape.length !== 2 || B?.shape.length !== 2)
    fail('weights', name, `lacks a matrix lora_A or lora_B of ${place}`);
  const rank = settingOf(config, 'r', 'rank_pattern', place, name);
  const alpha = settingOf(config, 'lora_alpha', 'alpha_pattern', place, name);
  const [[own, inputs], [outputs, other]] = [A.shape, B.shape];
  if (own !== rank || other !== rank)
    fail('shape', name, `has factors of rank ${own} and ${other} for ${place}, not ${rank}`);
  const scale = alpha / (config.use_rslora ? Math.sqrt(rank) : rank);
  return { a: turned(A, rank, inputs), b: turned(B, outputs, rank), inputs, outputs, rank, scale };
}

/**
 * @param {Record<string, any>} config @param {string} key @param {string} pattern
 * @param {string} place @param {string} name @returns {number}
 */
function settingOf(config, key, pattern, place, name) {
  const [, block, ...layer] = place.split('.');
  const module = `model.layers.${block}.${THEIRS[layer.join('.')]}`;
  let value = config[key] ?? 8;
  const others = config[pattern] ?? {};
  if (others.constructor !== Object) fail('weights', name, `has ${pattern} that is no object`);
  for (const [end, own] of Object.entries(others))
    if (module === end || module.endsWith(`.${end}`)) value = own;
  if (typeof value !== 'number' || !(value > 0 && value < 1e6))
    fail('weights', name, `has ${key} ${`${value}`.slice(0, 40)}, not a number above 0`);
  return value;
}
