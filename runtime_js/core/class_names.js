// Names of classes in a preparation: see wgcc/DATA.md.

/** Whether a preparation says nothing but names of classes. @param {any} preparation */
export function isOnlyNames(preparation) {
  const inputs = Object.values(preparation.inputs);
  return inputs.every(({ classes, columns }) => classes && !columns);
}

/**
 * The names of the target's classes; null where they are known by their numbers alone.
 * @param {any} preparation @returns {string[] | null}
 */
export function classNames(preparation) {
  const { inputs, target } = preparation ?? {};
  /** @type {string[] | undefined} */
  const names = inputs?.[target]?.classes;
  if (!names || (isOnlyNames(preparation) && names.every((name, id) => name === `${id}`)))
    return null;
  return names;
}
