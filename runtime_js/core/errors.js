// The one exception type of the runtime; its `code` is stable, its text says what to do.

/** A problem that a caller can act on. */
export class WgccError extends Error {
  /** Also one of another bundle, whose class is another. @param {any} error */
  static is(error) {
    return error?.name === 'WgccError' && typeof error.code === 'string';
  }

  /**
   * @param {string} code one stable word, the same as in Python
   * @param {string} message
   * @param {string} [field] the place in the plan, or the argument
   */
  constructor(code, message, field = '') {
    super(`${code}: ${field && `\`${field}\` `}${message}`);
    this.name = 'WgccError';
    this.code = code;
    this.field = field;
  }
}

/**
 * @param {string} code
 * @param {string} field
 * @param {string} message
 * @returns {never}
 */
export function fail(code, field, message) {
  throw new WgccError(code, message, field);
}
