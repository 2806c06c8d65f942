// One `fit`: its training, and the history of what was reported.

import { Training } from './training.js';

/** @import { Session } from '../core/session.js' */
/** @import { Replayed } from '../receipts/receipts.js' */
/** @import { Report, Settings } from './training.js' */
/**
 * @typedef {object} History of a training
 * @property {Report[]} reports
 * @property {'steps' | 'data' | 'stop'} stopped why it ended; `stop`: the loop was left
 * @property {number[]} steps of the reports
 * @property {number[]} losses
 * @property {number | undefined} loss the last one
 * @property {string | undefined} receipt if one was kept
 * @property {Replayed | undefined} replay if a receipt was replayed
 */

/** A loop that reads the reports may run for days; its history has only the last ones. */
const KEPT_REPORTS = 10_000;

export class Run {
  #history = newHistory();
  #training;
  /** @type {{error: unknown} | undefined} */
  #failure;
  /** @type {Promise<History> | undefined} */
  #ending;

  /** @param {Pick<Training, 'reports' | 'stopped'>} training */
  constructor(training) {
    this.#training = training;
  }

  /** @returns {AsyncGenerator<Report, void, void>} */
  async *reports() {
    try {
      for await (const report of this.#training.reports()) {
        keep(this.#history.reports, report, this.#ending ? Infinity : KEPT_REPORTS);
        yield report;
      }
      this.#history.stopped = this.#training.stopped;
    } catch (error) {
      this.#failure = { error };
      throw error;
    }
  }

  /**
   * Trains to the end, if nobody has; fails as the training did.
   * @param {AsyncGenerator<Report, void, void>} left the reports that nobody has read
   */
  history(left) {
    this.#ending ??= this.#finish(left);
    return this.#ending;
  }

  /** @param {AsyncGenerator<Report, void, void>} left */
  async #finish(left) {
    for await (const _ of left);
    if (this.#failure) throw this.#failure.error;
    return this.#history;
  }
}

/**
 * @param {Session} session @param {any} model as callers see it @param {any} data
 * @param {Settings} [options]
 */
export function openRun(session, model, data, options) {
  return new Run(new Training(session, model, data, options));
}

/** @returns {History} */
function newHistory() {
  /** @type {Report[]} */
  const reports = [];
  return {
    reports,
    stopped: 'stop',
    get steps() {
      return reports.map(({ step }) => step);
    },
    get losses() {
      return reports.map(({ loss }) => loss);
    },
    get loss() {
      return reports.at(-1)?.loss;
    },
    get receipt() {
      return reports.findLast(({ receipt }) => receipt)?.receipt;
    },
    get replay() {
      return reports.findLast(({ replay }) => replay)?.replay;
    },
  };
}

/** @param {Report[]} reports @param {Report} report @param {number} most */
function keep(reports, report, most) {
  // After a lost device, steps are made and reported again.
  while ((reports.at(-1)?.step ?? -1) >= report.step) reports.pop();
  reports.push(report);
  if (reports.length > most) reports.shift();
}
