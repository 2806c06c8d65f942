// The editor: CodeMirror with what the compiler says about the text that is open.

import { autocompletion, completionKeymap } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { lintGutter, setDiagnostics } from '@codemirror/lint';
import { searchKeymap } from '@codemirror/search';
import { ChangeSet, EditorState, StateEffect, StateField, Text } from '@codemirror/state';
import {
  Decoration,
  EditorView,
  hoverTooltip,
  keymap,
  lineNumbers,
  showTooltip,
  WidgetType,
} from '@codemirror/view';
import { ask } from './compiler.js';
import { wg } from './language.js';
import { bench } from './state.js';

/** @import { Edit } from './state.js' */

class Shape extends WidgetType {
  /** @param {string} text */
  constructor(text) {
    super();
    this.text = text;
  }
  /** @param {Shape} other */
  eq(other) {
    return other.text === this.text;
  }
  toDOM() {
    const span = document.createElement('span');
    span.className = 'cm-hint';
    span.textContent = this.text;
    return span;
  }
}

/** What is drawn into the text: shapes, and lines that a kernel comes from. @type {any} */
const drawn = StateEffect.define();
const drawings = StateField.define({
  create: () => Decoration.none,
  update(value, transaction) {
    for (const effect of transaction.effects) if (effect.is(drawn)) return effect.value;
    return value.map(transaction.changes);
  },
  provide: field => EditorView.decorations.from(field),
});

/** The call that the cursor is in. @type {any} */
const called = StateEffect.define();
const call = StateField.define({
  create: () => /** @type {any} */ (null),
  update(value, transaction) {
    for (const effect of transaction.effects) if (effect.is(called)) return effect.value;
    return transaction.docChanged ? null : value;
  },
  provide: field => showTooltip.from(field),
});

/** @type {EditorView} */
let view;
let changed = () => {};

/** Waits until the compiler has seen the text. @type {() => Promise<void>} */
let whenSeen = async () => {};

/** @param {Element} parent @param {() => void} whenChanged @param {() => Promise<void>} whenChecked */
export function openEditor(parent, whenChanged, whenChecked) {
  changed = whenChanged;
  whenSeen = whenChecked;
  view = new EditorView({ parent, state: stateOf('') });
  // People without a mouse scroll it by keys.
  view.scrollDOM.tabIndex = 0;
}

/** @param {string} doc */
const stateOf = doc =>
  EditorState.create({
    doc,
    extensions: [
      lineNumbers(),
      history(),
      wg,
      drawings,
      call,
      lintGutter(),
      hoverTooltip(explain),
      autocompletion({ override: [complete] }),
      keymap.of([
        indentWithTab,
        ...completionKeymap,
        ...searchKeymap,
        ...defaultKeymap,
        ...historyKeymap,
      ]),
      EditorView.theme({
        '&': { height: '100%' },
        '.cm-scroller': { fontFamily: 'ui-monospace, monospace', fontSize: '13px' },
        '.cm-gutters': {
          background: 'var(--card)',
          color: 'var(--soft)',
          borderRight: '1px solid var(--line)',
        },
        '.cm-content': { caretColor: 'var(--ink)' },
        '&.cm-focused .cm-cursor': { borderLeftColor: 'var(--ink)' },
      }),
      EditorView.contentAttributes.of({
        'aria-label': 'The program. Escape, then Tab, leaves it.',
      }),
      EditorView.updateListener.of(update => {
        if (update.docChanged) changed();
        if (update.selectionSet && !update.docChanged) takeLine();
      }),
    ],
  });

export const textOf = () => view.state.doc.toString();

/** Another text, without a way back to the last. @param {string} text */
export function showText(text) {
  view.setState(stateOf(text));
}

/** In the text that is open, where they can be undone, and in the other files. @param {Edit[]} edits */
export function applyEdits(edits) {
  const changesOf = (/** @type {string} */ file) =>
    edits
      .filter(edit => edit.file === file)
      .map(({ from, to, text }) => ({ from, to, insert: text }));
  for (const name of Object.keys(bench.files))
    if (name !== bench.main) {
      const text = Text.of(bench.files[name].split('\n'));
      bench.files[name] = ChangeSet.of(changesOf(name), text.length).apply(text).toString();
    }
  view.dispatch({ changes: changesOf(bench.main) });
  view.focus();
}

/** @param {string} text in place of the whole, as an edit that can be undone */
export function replaceText(text) {
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
}

/** Draws what the last check said. */
export function drawChecked() {
  const { length } = view.state.doc;
  const own = bench.main === bench.program ? bench.problems : [];
  const marks = own.map(problem => ({
    from: Math.min(problem.from, length),
    to: Math.min(Math.max(problem.to, problem.from), length),
    severity: problem.severity,
    message: [`${problem.code} ${problem.message}`, ...problem.advice].join('\n'),
    actions: problem.fixes.map(({ title, edits }) => ({
      name: title,
      apply: () => applyEdits(edits),
    })),
  }));
  view.dispatch(setDiagnostics(view.state, marks));
  draw();
  if (view.hasFocus) showCall(cursor());
}

/** Shapes, and the line that is pointed at. */
export function draw() {
  const { doc } = view.state;
  const marks = bench.hints
    .filter(({ at }) => at <= doc.length)
    .map(({ at, text }) => Decoration.widget({ widget: new Shape(text), side: 1 }).range(at));
  if (bench.line > 0 && bench.line <= doc.lines)
    marks.push(Decoration.line({ class: 'cm-linked' }).range(doc.line(bench.line).from));
  for (const number of bench.runs)
    if (number <= doc.lines)
      marks.push(Decoration.line({ class: 'cm-runs' }).range(doc.line(number).from));
  if (bench.lit && bench.lit.line > 0 && bench.lit.line <= doc.lines)
    marks.push(Decoration.line({ class: 'cm-lit' }).range(doc.line(bench.lit.line).from));
  view.dispatch({ effects: drawn.of(Decoration.set(marks, true)) });
}

/** Scrolls to a line of the model. @param {number} number */
export function revealLine(number) {
  if (number < 1 || number > view.state.doc.lines) return;
  const { from } = view.state.doc.line(number);
  view.dispatch({ effects: EditorView.scrollIntoView(from, { y: 'center' }) });
}

/** The line of the cursor is the one that kernels are marked for. */
function takeLine() {
  const { head } = view.state.selection.main;
  bench.line = view.state.doc.lineAt(head).number;
  bench.announce('line');
  showCall(head);
}

/** @param {number} at */
async function showCall(at) {
  const { answer } = await ask('signature', { at }).catch(() => ({ answer: null }));
  if (view.state.selection.main.head !== at) return;
  const tooltip = answer && {
    pos: at,
    above: true,
    create: () => ({ dom: docOf(`${answer.signature}\n${answer.text ?? ''}`.trim()) }),
  };
  view.dispatch({ effects: called.of(tooltip) });
}

/** @param {EditorView} _ @param {number} at */
async function explain(_, at) {
  await whenSeen();
  const { answer } = await ask('hover', { at });
  if (!answer) return null;
  const text = answer.text.replaceAll(/```\w*\n?/g, '').trim();
  return { pos: answer.from, end: answer.to, create: () => ({ dom: docOf(text) }) };
}

/** @param {string} text */
function docOf(text) {
  const dom = document.createElement('div');
  dom.className = 'doc';
  dom.textContent = text;
  return dom;
}

const KINDS = new Map([
  ['keyword', 'keyword'],
  ['built-in', 'function'],
  ['standard layer', 'class'],
  ['layer', 'class'],
  ['fn', 'function'],
  ['setting', 'property'],
  ['path', 'text'],
]);

/** @param {import('@codemirror/autocomplete').CompletionContext} context */
async function complete(context) {
  const word = context.matchBefore(/[\w]*/);
  const before = context.state.sliceDoc(Math.max(0, context.pos - 1), context.pos);
  if (!context.explicit && !word?.text && before !== '.') return null;
  await whenSeen();
  if (context.aborted) return null;
  const { answer } = await ask('complete', { at: context.pos });
  return {
    from: word?.from ?? context.pos,
    options: answer.map((/** @type {any} */ item) => ({
      label: item.label,
      type: KINDS.get(item.kind) ?? 'variable',
      detail: item.detail.slice(0, 60),
      info: item.text || undefined,
    })),
    validFor: /^\w*$/,
  };
}

/** Where the cursor is. */
export const cursor = () => view.state.selection.main.head;
