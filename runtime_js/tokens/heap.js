// What is due next: numbers with a value each, the least number first.

export class Heap {
  /** @type {number[]} */
  #keys = [];
  /** @type {number[]} */
  #values = [];
  /** Of the one that `pop` took. */
  key = 0;
  value = 0;

  /** @param {number} key @param {number} value */
  push(key, value) {
    let at = this.#keys.length;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (this.#keys[parent] <= key) break;
      this.#put(at, this.#keys[parent], this.#values[parent]);
      at = parent;
    }
    this.#put(at, key, value);
  }

  /** Takes the least, as `key` and `value`; false if there is none. */
  pop() {
    if (!this.#keys.length) return false;
    [this.key] = this.#keys;
    [this.value] = this.#values;
    const key = /** @type {number} */ (this.#keys.pop());
    const value = /** @type {number} */ (this.#values.pop());
    if (this.#keys.length) this.#sink(key, value);
    return true;
  }

  /** From the top. @param {number} key @param {number} value */
  #sink(key, value) {
    const keys = this.#keys;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child + 1 < keys.length && keys[child + 1] < keys[child]) child++;
      if (child >= keys.length || keys[child] >= key) break;
      this.#put(at, keys[child], this.#values[child]);
      at = child;
    }
    this.#put(at, key, value);
  }

  /** @param {number} at @param {number} key @param {number} value */
  #put(at, key, value) {
    this.#keys[at] = key;
    this.#values[at] = value;
  }
}
