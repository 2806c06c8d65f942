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

/** The row of an averaged picture (see `Averaged` of the runtime), in the numbers of the data. */
function rowOfAveraged(averaged, { channels, height, width }, { low, high }, isWhole) {
  const shares = new Float32Array(channels * height * width);
  averaged.write(shares, 0, WHITE);
  const values = Array.from(shares, share => low + share * (high - low));
  return isWhole ? values.map(value => Math.floor(value + 0.5)) : values;
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

/** All pixels of a canvas, averaged to as many as the input has. */
function averagedPixels({ data, width, height }, picture) {
  const averaged = new Averaged(width, height, averagedLayout(picture));
  for (let y = 0; y < height; y++)
    averaged.addRow(y, data.subarray(4 * y * width, 4 * (y + 1) * width));
  return averaged;
}
const averagedLayout = ({ layout, ...size }) => ({ order: layout, ...size });
