// Reads every shared case of tests/data_cases with the JavaScript runtime, without a browser:
//   node data_cases.mjs FOLDER < [{"source": …, "model": …, "options": …}, …]
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { inflateSync } from 'node:zlib';
import { DataSource, filesGiven, ModelForm } from '../../runtime_js/data/data.js';
import { checkOptions } from '../../runtime_js/data/options.js';

const [folder] = process.argv.slice(2);
globalThis.createImageBitmap = async blob => decodePng(Buffer.from(await blob.arrayBuffer()));
globalThis.OffscreenCanvas = class {
  getContext() {
    let drawn;
    return {
      clearRect() {},
      drawImage(bitmap, _, y) {
        drawn = { bitmap, top: -y };
      },
      getImageData(_x, _y, width, height) {
        const data = new Uint8ClampedArray(width * height * 4);
        data.set(drawn.bitmap.pixels.subarray(drawn.top * width * 4).subarray(0, data.length));
        return { data };
      },
    };
  }
};

/** The pixels of a PNG file of 8 bits per channel, without interlace. */
function decodePng(bytes) {
  const parts = [];
  let header;
  for (let at = 8; at < bytes.length; at += 12 + bytes.readUInt32BE(at)) {
    const data = bytes.subarray(at + 8, at + 8 + bytes.readUInt32BE(at));
    const kind = bytes.toString('latin1', at + 4, at + 8);
    if (kind === 'IHDR') header = data;
    if (kind === 'IDAT') parts.push(data);
  }
  const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)];
  const channels = { 0: 1, 2: 3, 4: 2, 6: 4 }[header[9]];
  const lines = unfiltered(inflateSync(Buffer.concat(parts)), width * channels, height, channels);
  const pixels = new Uint8Array(width * height * 4).fill(255);
  for (let i = 0; i < width * height; i++) {
    const from = lines.subarray(i * channels, (i + 1) * channels);
    const isGrey = channels < 3;
    pixels.set(isGrey ? [from[0], from[0], from[0]] : from.subarray(0, 3), i * 4);
    if (channels % 2 === 0) pixels[i * 4 + 3] = from[channels - 1];
  }
  return { width, height, pixels, close() {} };
}

function unfiltered(data, size, height, channels) {
  const found = new Uint8Array(size * height);
  const at = (y, x) => (x < 0 || y < 0 ? 0 : found[y * size + x]);
  for (let y = 0; y < height; y++)
    for (let x = 0; x < size; x++) {
      const [left, up, corner] = [
        at(y, x - channels),
        at(y - 1, x),
        x < channels ? 0 : at(y - 1, x - channels),
      ];
      const predicted = [0, left, up, (left + up) >> 1, paeth(left, up, corner)];
      found[y * size + x] = data[y * (size + 1) + 1 + x] + predicted[data[y * (size + 1)]];
    }
  return found;
}

function paeth(left, up, corner) {
  const guess = left + up - corner;
  const [a, b, c] = [left, up, corner].map(value => Math.abs(guess - value));
  if (a <= b && a <= c) return left;
  return b <= c ? up : corner;
}

/** A file, or the files of a folder with their paths, as a browser gives them. */
function given(source) {
  const path = join(folder, source);
  if (!statSync(path).isDirectory())
    return { name: basename(path), arrayBuffer: async () => readFileSync(path) };
  return readdirSync(path, { recursive: true })
    .filter(inside => statSync(join(path, inside)).isFile())
    .map(inside => ({
      name: basename(inside),
      path: `${source}/${inside}`,
      arrayBuffer: async () => readFileSync(join(path, inside)),
    }));
}

function nested(list, shape) {
  const [size, ...inner] = shape;
  if (size === undefined) return list[0];
  const length = list.length / size;
  return Array.from({ length: size }, (_, i) =>
    nested(list.subarray(i * length, (i + 1) * length), inner),
  );
}

const listsOf = ({ arrays }) =>
  Object.fromEntries(
    Object.entries(arrays).map(([name, list]) => [name, nested(list, list.shape)]),
  );

/** With `held_out`, the rows to train with; the others are `held`. */
async function read({ source, model, classes, options, held_out: share }) {
  try {
    checkOptions(options);
    const facts = JSON.parse(readFileSync(resolve(folder, model), 'utf8'));
    const form = new ModelForm({ ...facts, classes });
    const files = Array.isArray(source) ? source.map(given) : given(source);
    const whole = await new DataSource(filesGiven(files)).read(form, options);
    const [data, held] = share ? await whole.split(share) : [whole];
    return {
      notes: data.notes,
      rows: data.rows,
      dropped: data.dropped,
      columns: data.columns,
      needs_scaling: data.needsScaling,
      preparation: data.preparation,
      arrays: listsOf(data),
      ...(held && { held: listsOf(held) }),
    };
  } catch (error) {
    if (error.name !== 'WgccError') return { error: error.stack };
    const { problem, place, values } = error;
    if (problem) return { error: { problem, place, values } };
    return { error: error.message.slice(`${error.code}: `.length) };
  }
}

const found = [];
for (const one of JSON.parse(readFileSync(0, 'utf8'))) found.push(await read(one));
process.stdout.write(JSON.stringify(found));
