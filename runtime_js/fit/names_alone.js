// Names of classes of a model that is trained with arrays, which have none.

/**
 * What stays of a preparation when the model is trained with arrays as they are.
 * @param {any} preparation
 */
export function namesAlone(preparation) {
  const inputs = Object.entries(preparation?.inputs ?? {})
    .filter(([, { classes }]) => classes)
    .map(([name, { kind, classes }]) => [name, { kind, classes }]);
  return inputs.length ? { ...preparation, inputs: Object.fromEntries(inputs) } : null;
}
