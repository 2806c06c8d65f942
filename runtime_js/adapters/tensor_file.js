// Writes plain safetensors files of f32 arrays.

/** @typedef {{shape: number[], data: Float32Array}} Plain */

/**
 * @param {Record<string, Plain>} tensors @param {Record<string, string>} [metadata]
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function tensorFile(tensors, metadata) {
  /** @type {Record<string, any>} */
  const header = metadata ? { __metadata__: metadata } : {};
  let end = 0;
  for (const [name, { shape, data }] of Object.entries(tensors)) {
    header[name] = { dtype: 'F32', shape, data_offsets: [end, end + data.byteLength] };
    end += data.byteLength;
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const length = 8 * Math.ceil(text.length / 8);
  const file = new Uint8Array(8 + length + end).fill(32, 8, 8 + length);
  new DataView(file.buffer).setBigUint64(0, BigInt(length), true);
  file.set(text, 8);
  let at = 8 + length;
  for (const { data } of Object.values(tensors)) {
    file.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), at);
    at += data.byteLength;
  }
  return file;
}
