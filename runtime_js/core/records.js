// Map and filter for objects with one value per name.

/**
 * An object's own member: a name of the model, such as `toString`, may be that of a member that
 * every object inherits.
 * @template V
 * @param {Record<string, V> | undefined} record @param {string} name @returns {V | undefined}
 */
export function ownOf(record, name) {
  return record && Object.hasOwn(record, name) ? record[name] : undefined;
}

/**
 * @template V, R
 * @param {Record<string, V>} record @param {(value: V, name: string) => R} change
 * @returns {Record<string, R>}
 */
export function mapRecord(record, change) {
  return Object.fromEntries(
    Object.entries(record).map(([name, value]) => [name, change(value, name)]),
  );
}

/**
 * @template V
 * @param {Record<string, V>} record @param {(value: V, name: string) => boolean} isWanted
 * @returns {Record<string, V>}
 */
export function filterRecord(record, isWanted) {
  return Object.fromEntries(
    Object.entries(record).filter(([name, value]) => isWanted(value, name)),
  );
}
