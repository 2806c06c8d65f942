// The model in the browser's own storage (OPFS), if the visitor wants: only this page can read it.

const FOLDER = 'models';

/** Pages that were opened from a disk have no such storage. */
export async function storageFolder() {
  try {
    const root = await navigator.storage.getDirectory();
    return await root.getDirectoryHandle(FOLDER, { create: true });
  } catch {
    return undefined;
  }
}

/** @param {any} folder @returns {Promise<File[]>} */
export async function keptFiles(folder) {
  const files = [];
  for await (const handle of folder.values())
    if (handle.kind === 'file' && !handle.name.endsWith('.crswap'))
      files.push(await handle.getFile());
  return files;
}

/** Copies a file piece by piece; others are removed. @param {any} folder @param {File} file */
export async function keep(folder, file) {
  await forgetAll(folder);
  const handle = await folder.getFileHandle(file.name, { create: true });
  const writable = await handle.createWritable();
  try {
    await file.stream().pipeTo(writable);
  } catch (error) {
    await folder.removeEntry(file.name).catch(() => {});
    throw new Error(`the browser has no room for ${file.name}: ${error.message}`);
  }
}

/** @param {any} folder */
export async function forgetAll(folder) {
  for await (const name of folder.keys()) await folder.removeEntry(name);
}
