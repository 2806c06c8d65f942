// Pictures as the numbers of a row, and back.

/** A canvas element's pixels are bytes. */
const WHITE = 255;
/** Data with larger numbers than this is taken to use all bytes. */
const SOME_BYTES = 127;

/**
 * What white and black are in the pictures of the data: numbers, and whether the ground is dark, as
 * in many data sets of handwriting.
 */
function lookOf(entry, key) {
  const isNumber = isFloat(tensorOf(entry, 'inputs', key));
  const usual = { low: 0, high: isNumber ? 1 : WHITE, isDark: false };
  if (page.data?.isInvented || !isInData(entry, key)) return usual;
  const list = arraysOf(page.data.train)[key];
  const picture = pictureOf(inputRow(entry, key));
  const sample = list.subarray(0, Math.min(list.length, 2 ** 18));
  const low = sample.reduce((least, v) => Math.min(least, v), 0);
  const most = sample.reduce((largest, v) => Math.max(largest, v), low);
  const high =
    preparedInput(key) || (!isNumber && most > SOME_BYTES) ? usual.high : most || usual.high;
  return { low, high, isDark: cornerMean(sample, picture) < (low + high) / 2 };
}
function cornerMean(sample, { channels, height, width }) {
  const size = channels * height * width;
  let [sum, count] = [0, 0];
  for (let start = 0; start + size <= sample.length; start += size, count++) sum += sample[start];
  return sum / Math.max(1, count);
}

/** Where channel `c` of pixel `i` is in a row. */
const placeOf = ({ layout, channels, height, width }, c, i) =>
  layout === 'hwc' ? i * channels + c : c * height * width + i;

/** The row of a picture with as many pixels as the input has. */
function rowOfPixels({ data }, picture, { low, high }, isWhole) {
  const { channels, height, width } = picture;
  const row = new Array(channels * height * width);
  for (let i = 0; i < height * width; i++)
    for (let c = 0; c < channels; c++) {
      const share = channelOf(data, 4 * i, c, channels) / WHITE;
      const value = low + share * (high - low);
      row[placeOf(picture, c, i)] = isWhole ? Math.round(value) : value;
    }
  return row;
}
function channelOf(data, at, c, channels) {
  if (channels > 1) return data[at + c];
  return 0.299 * data[at] + 0.587 * data[at + 1] + 0.114 * data[at + 2];
}

/** The pixels of a row. */
function pixelsOfRow(row, picture, { low, high }) {
  const { channels, height, width } = picture;
  const image = new ImageData(width, height);
  const byteAt = (c, i) => {
    const value = row[placeOf(picture, channels > 1 ? c : 0, i)];
    return (WHITE * (value - low)) / (high - low || 1);
  };
  for (let i = 0; i < height * width; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = byteAt(c, i);
    image.data[4 * i + 3] = channels === 4 ? byteAt(3, i) : WHITE;
  }
  return image;
}

/** A picture with fewer pixels, each the mean of those it covers; parts of pixels count in part. */
function averaged({ data, width, height }, toWidth, toHeight) {
  const found = new ImageData(toWidth, toHeight);
  const columns = coverage(width, toWidth);
  const rows = coverage(height, toHeight);
  for (let y = 0; y < toHeight; y++)
    for (let x = 0; x < toWidth; x++) {
      const sums = [0, 0, 0, 0];
      for (const [v, high] of rows[y])
        for (const [u, wide] of columns[x])
          for (let c = 0; c < 4; c++) sums[c] += high * wide * data[4 * (v * width + u) + c];
      found.data.set(sums, 4 * (y * toWidth + x));
    }
  return found;
}
/** For each of `to` equal parts of `from` pixels: [pixel, its share of the part]. */
function coverage(from, to) {
  return Array.from({ length: to }, (_, part) => {
    const [start, end] = [(part * from) / to, ((part + 1) * from) / to];
    const pixels = [];
    for (let i = Math.floor(start); i < end; i++) {
      const share = (Math.min(end, i + 1) - Math.max(start, i)) / (end - start);
      if (share > 0 && i < from) pixels.push([i, share]);
    }
    return pixels;
  });
}
