// What the scripts of a page use of the runtime.
const randomUnits = (seed, name, count) =>
  Array.from(draw_js.namedWords(seed, name, count), word => word / 2 ** 32);
const { CALLER_TYPES, INTEGER_RANGES, elementCount, isFloat, ownOf, rangeOf } = wgcc_js;
const { inStorage, readTensors } = files_js;
const { Averaged, averagedBitmap, Data, DataSource, filesGiven, formOf, knownForm, readPasted } =
  data_js;
