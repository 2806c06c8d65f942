// What pages of examples share that train while one looks at them: the buttons, the numbers, the
// curve, and what is said about errors. Such a page draws what its model computes, and little else.

import { load } from './bundle.js';
import { surviveWith } from './lost_device.js';
import { lossText, plot, speedText } from './plot.js';
import { askBeforeLeaving, problemWords, reasonOf } from './problems.js';

/**
 * @typedef {{step: number, loss: number, outputs: Record<string, number>, ms: number}} Report
 * @typedef {object} Lesson what a page trains, and how it shows it
 * @property {(step: number) => any} [batch] the inputs of a step; none, if the entry has none
 * @property {(model: any) => any} show draws what the model computes now
 * @property {number} [every] steps between two reports
 * @property {(report: Report) => Record<string, string>} [numbers] texts of elements by their id,
 *   beside `step`, `loss` and `speed`
 * @property {(report: Report) => number} [curve] what is drawn over the steps; the loss, unless given
 * @property {[number, number]} [range] the lowest and highest value of the curve; without it the
 *   axis is logarithmic
 * @property {() => any} [forget] follows a reset
 */

/** Points of the curve that are kept. */
const MOST_REPORTS = 600;
/** The training goes on until somebody stops it. */
const ENDLESS = 1e9;

const element = (/** @type {string} */ id) =>
  /** @type {HTMLElement} */ (document.getElementById(id));

/** @param {any} error */
const say = error => {
  if (error.name !== 'AbortError') element('status').textContent = problemWords(error);
};

/** A page with the buttons `start` and `reset`, `status`, and canvas `plot`. */
export class LiveTraining {
  /** @type {any} */
  #model;
  /** @type {AbortController | undefined} */
  #running;
  /** @type {[number, number][]} */
  #history = [];
  /** Resolves when the last training has ended. */
  #ended = Promise.resolve();
  #showing = Promise.resolve();

  /** @param {Lesson} lesson */
  constructor(lesson) {
    this.lesson = lesson;
    element('start').onclick = () => (this.#running ? this.#running.abort() : this.#start());
    element('reset').onclick = () => this.#forget();
    askBeforeLeaving(() => this.isRunning || this.#history.length > 0);
    window.addEventListener('resize', () => {
      this.#drawCurve();
      this.again();
    });
    load().then(
      model => this.#open(model),
      error => {
        element('status').textContent = reasonOf(error);
      },
    );
  }

  get isRunning() {
    return Boolean(this.#running);
  }

  /** Shows the model once more, after the pictures that are being made. */
  again() {
    const show = () => this.#model && this.lesson.show(this.#model);
    this.#showing = this.#showing.then(show).catch(say);
    return this.#showing;
  }

  /** Shows it so often a second while nothing is learned, unless the visitor wants no motion. @param {() => number} rate */
  async animate(rate) {
    for (;;) {
      if (!this.isRunning && !matchMedia('(prefers-reduced-motion: reduce)').matches)
        await this.again();
      await new Promise(wake => setTimeout(wake, 1000 / rate()));
    }
  }

  /** @param {any} model */
  async #open(model) {
    this.#model = model;
    element('work').hidden = false;
    element('status').textContent = `On ${model.adapter.name}.`;
    await this.again();
    surviveWith(
      model,
      () => this.#stop(),
      () => this.again(),
    );
  }

  #start() {
    this.#ended = this.#train();
  }

  async #stop() {
    this.#running?.abort();
    await this.#ended;
  }

  async #train() {
    this.#running = new AbortController();
    element('start').textContent = 'Stop';
    element('status').textContent = `On ${this.#model.adapter.name}.`;
    const { batch = () => ({}), every = 10 } = this.lesson;
    const options = { steps: ENDLESS, every, signal: this.#running.signal };
    try {
      for await (const report of this.#model.fit(batch, options)) {
        this.#note(report);
        await this.again();
      }
    } catch (error) {
      say(error);
    } finally {
      this.#running = undefined;
      element('start').textContent = 'Train';
    }
  }

  /** @param {Report} report */
  #note(report) {
    const { step, loss, ms } = report;
    const numbers = this.lesson.numbers?.(report);
    this.#history.push([step, this.lesson.curve?.(report) ?? loss]);
    // Half of the points say as much about a long training.
    if (this.#history.length > MOST_REPORTS)
      this.#history = this.#history.filter((_, i) => i % 2 === 0);
    const texts = { step: step.toLocaleString('en'), loss: lossText(loss) };
    const speed = speedText(1000 / ms);
    for (const [id, text] of Object.entries({ ...texts, speed, ...numbers }))
      if (element(id)) element(id).textContent = text;
    this.#drawCurve();
  }

  #drawCurve() {
    const { range } = this.lesson;
    const canvas = /** @type {HTMLCanvasElement} */ (element('plot'));
    plot(canvas, [this.#history], { log: !range, range });
  }

  /** Other first values. */
  async #forget() {
    await this.#stop();
    await this.#model.reset(Math.floor(Math.random() * 1e6));
    this.#history = [];
    element('step').textContent = '0';
    this.#drawCurve();
    await this.lesson.forget?.();
    await this.again();
  }
}
