// Delimited text as columns of cells, with the line of each record (RFC 4180). Mirrors
// csv_records.py.

import { forEachItem } from './pause.js';
import { trimmed } from './source.js';
import { linesOf } from './text_lines.js';

/** @import { Source } from './source.js' */
/** @import { Chunks } from './text_lines.js' */
/**
 * @typedef {{line: number, cells: string[]}} TableRecord trimmed cells, and the first line
 * @typedef {object} Delimited the records of a table
 * @property {string[][]} columns the cells of each column; the first may be a header
 * @property {number[]} lines where each record starts
 * @property {string} delimiter '' for a single column
 */

const DELIMITERS = ['\t', ';', ',', '|'];
/** The delimiter is chosen by the first records. */
const LOOKED_AT = 100;
/** And lines: a quote that is never closed would make the rest of the file one record. */
const LINES_LOOKED_AT = 10_000;
/** The share of them that must have the same number of fields. */
const MOST = 0.5;
const SEP_LINE = /^sep=(.)$/iu;

/**
 * All records; every one has as many cells as the first.
 * @param {Chunks} chunks @param {Source} source @returns {Promise<Delimited>}
 */
export async function readRecords(chunks, source) {
  const [firstLine] = linesOf(chunks);
  const given = SEP_LINE.exec(firstLine)?.[1];
  const delimiter = given ?? (await findDelimiter(chunks));
  /** @type {Delimited} */
  const found = { columns: [], lines: [], delimiter };
  await forEachItem(recordsOf(chunks, given ? 1 : 0, delimiter, source), record => {
    if (record) addRecord(found, record, source);
  });
  if (!found.lines.length) source.refuse('empty-file');
  return found;
}

/**
 * @param {Delimited} found gets the cells @param {TableRecord} record @param {Source} source
 */
export function addRecord({ columns, lines }, { cells, line }, source) {
  if (!lines.length) for (const _ of cells) columns.push([]);
  const width = columns.length;
  if (cells.length < width || cells.slice(width).some(Boolean))
    source.refuse('field-count', { count: cells.length, unit: source.unit, width }, line);
  for (let i = 0; i < width; i++) columns[i].push(cells[i]);
  lines.push(line);
}

/** The one that gives most of the first records the same number of fields. @param {Chunks} chunks */
async function findDelimiter(chunks) {
  let best = '';
  let bestShare = 0;
  for (const delimiter of DELIMITERS) {
    /** @type {Record<number, number>} */
    const counts = {};
    let total = 0;
    await forEachItem(firstRecords(chunks, delimiter), ({ cells }) => {
      counts[cells.length] = (counts[cells.length] ?? 0) + 1;
      total++;
    });
    const most = Math.max(
      0,
      ...Object.keys(counts).map(width => (+width > 1 ? counts[+width] : 0)),
    );
    if (most / total >= MOST && most / total > bestShare) {
      best = delimiter;
      bestShare = most / total;
    }
  }
  return best;
}

/** @param {Chunks} chunks @param {string} delimiter */
function* firstRecords(chunks, delimiter) {
  let count = 0;
  for (const record of recordsOf(chunks, 0, delimiter, undefined, LINES_LOOKED_AT)) {
    if (!record) continue;
    yield record;
    if (++count === LOOKED_AT) return;
  }
}

/**
 * Records, and null where one goes on in the next line. Without a source, an unclosed quote ends
 * with the text.
 * @param {Chunks} chunks @param {number} skipped lines @param {string} delimiter
 * @param {Source} [source] @param {number} [most] lines to read
 * @returns {Generator<TableRecord | null, void, void>}
 */
function* recordsOf(chunks, skipped, delimiter, source, most = Infinity) {
  let line = 0;
  /** @type {QuotedRecord | undefined} */
  let open;
  for (const text of linesOf(chunks)) {
    if (line === most) break;
    line++;
    const isPlain = !open && !text.includes('"');
    if (line <= skipped || (isPlain && !trimmed(text))) continue;
    if (isPlain) {
      yield { line, cells: fieldsOf(text, delimiter).map(trimmed) };
      continue;
    }
    open ??= new QuotedRecord(delimiter, line);
    yield open.add(text) ? null : open.record();
    if (!open.quote) open = undefined;
  }
  if (!open?.quote) return;
  const { quote } = open;
  source?.refuse('open-quote', {}, quote.line, quote.column);
  yield open.record();
}

/** @param {string} text without quotes @param {string} delimiter */
function fieldsOf(text, delimiter) {
  return delimiter ? text.split(delimiter) : [text];
}

/** The fields of a record with quotes, which may go on over several lines. */
class QuotedRecord {
  /** @type {string[]} */
  #done = [];
  #field = '';
  #isBlank = true;
  #line;
  #lines = 0;
  /** The place of the quote that is open. @type {{line: number, column: number} | undefined} */
  quote;

  /** @param {string} delimiter @param {number} line */
  constructor(delimiter, line) {
    this.delimiter = delimiter;
    this.#line = line;
  }

  /** Whether a quote is still open at the end of this line. @param {string} text */
  add(text) {
    if (this.#lines++) this.#field += '\n';
    let at = 0;
    while (at < text.length) at = this.quote ? this.#inside(text, at) : this.#outside(text, at);
    return this.quote !== undefined;
  }

  /** @returns {TableRecord} */
  record() {
    return { line: this.#line, cells: [...this.#done, this.#field].map(trimmed) };
  }

  /**
   * Takes text up to the next quote, which closes the field or is one of a doubled pair.
   * @param {string} text @param {number} at
   */
  #inside(text, at) {
    const end = text.indexOf('"', at);
    if (end < 0) {
      this.#take(text.slice(at));
      return text.length;
    }
    this.#take(text.slice(at, end));
    if (text[end + 1] === '"') {
      this.#take('"');
      return end + 2;
    }
    this.quote = undefined;
    return end + 1;
  }

  /** @param {string} text @param {number} at */
  #outside(text, at) {
    const letter = text[at];
    if (letter === this.delimiter) {
      this.#done.push(this.#field);
      this.#field = '';
      this.#isBlank = true;
    } else if (letter === '"' && this.#isBlank) {
      this.#field = '';
      this.quote = { line: this.#line + this.#lines - 1, column: this.#done.length + 1 };
    } else this.#take(letter);
    return at + 1;
  }

  /** @param {string} text */
  #take(text) {
    this.#field += text;
    this.#isBlank &&= !trimmed(text);
  }
}
