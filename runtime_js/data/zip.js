// Reads zip files, which .npz files are: stored and deflated members.

/** @typedef {{name: string, method: number, size: number, packed: Uint8Array}} Member */

const END = 0x06054b50;
const ENTRY = 0x02014b50;
const LOCAL = 0x04034b50;
const END_BYTES = 22;
const ENTRY_BYTES = 46;
const LOCAL_BYTES = 30;
const LONGEST_COMMENT = 0xffff;
const STORED = 0;
const DEFLATED = 8;
/** Deflate makes data at most about a thousand times smaller. */
const MOST_EXPANSION = 1100;
/** Of all members, unpacked: engines have no larger arrays, and pages no more memory. */
const MOST_BYTES = 2 ** 32;

/**
 * The members of an archive by name. Throws any error if it is malformed.
 * @param {Uint8Array} bytes @param {(name: string) => boolean} isWanted @param {number} most bytes
 * @returns {Promise<Record<string, Uint8Array>>}
 */
export async function unzip(bytes, isWanted = () => true, most = MOST_BYTES) {
  /** @type {Record<string, Uint8Array>} */
  const found = {};
  const all = members(bytes).filter(({ name }) => isWanted(name));
  const total = all.reduce((sum, { size }) => sum + size, 0);
  if (total > most) throw new Error(`unpacked it has ${total} bytes; at most ${most} are read`);
  for (const member of all) found[member.name] = await contents(member);
  return found;
}

/** @param {Uint8Array} bytes @returns {Member[]} as the directory at the end lists them */
function members(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = endOf(view);
  let at = view.getUint32(end + 16, true);
  return Array.from({ length: view.getUint16(end + 10, true) }, () => {
    if (view.getUint32(at, true) !== ENTRY) throw new Error('its directory is damaged');
    const nameBytes = view.getUint16(at + 28, true);
    const member = memberAt(bytes, view, at, nameBytes);
    at += ENTRY_BYTES + nameBytes + view.getUint16(at + 30, true) + view.getUint16(at + 32, true);
    return member;
  });
}

/** Where the record at the end starts. @param {DataView} view */
function endOf(view) {
  const first = Math.max(0, view.byteLength - END_BYTES - LONGEST_COMMENT);
  for (let at = view.byteLength - END_BYTES; at >= first; at--)
    if (view.getUint32(at, true) === END) return at;
  throw new Error('it is not a zip file');
}

/**
 * @param {Uint8Array} bytes @param {DataView} view @param {number} at @param {number} nameBytes
 * @returns {Member}
 */
function memberAt(bytes, view, at, nameBytes) {
  const name = new TextDecoder().decode(bytes.subarray(at + ENTRY_BYTES).subarray(0, nameBytes));
  const packedSize = view.getUint32(at + 20, true);
  const local = view.getUint32(at + 42, true);
  if (view.getUint32(local, true) !== LOCAL) throw new Error(`${name} is damaged`);
  const start =
    local + LOCAL_BYTES + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
  if (start + packedSize > bytes.length) throw new Error(`${name} is cut off`);
  return {
    name,
    method: view.getUint16(at + 10, true),
    size: view.getUint32(at + 24, true),
    packed: bytes.subarray(start, start + packedSize),
  };
}

/** @param {Member} member @returns {Promise<Uint8Array>} */
async function contents({ name, method, size, packed }) {
  if (method === STORED) return packed;
  if (method !== DEFLATED) throw new Error(`${name} is compressed in a way that is not known`);
  if (size > MOST_EXPANSION * packed.length) throw new Error(`${name} is damaged`);
  const stream = new Blob([new Uint8Array(packed)])
    .stream()
    .pipeThrough(new DecompressionStream('deflate-raw'));
  const unpacked = new Uint8Array(size);
  let end = 0;
  for (const reader = stream.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    if (end + value.length > size) throw new Error(`${name} is damaged`);
    unpacked.set(value, end);
    end += value.length;
  }
  if (end !== size) throw new Error(`${name} is damaged`);
  return unpacked;
}
