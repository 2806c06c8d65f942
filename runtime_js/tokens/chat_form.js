// Turns a conversation into text for a model that chats. Mirrors chat_form.py: the form is known from
// marks in the model's chat template, which is a program of whoever made the file, and is not run.

import { fail } from '../core/errors.js';

/** @typedef {{role: 'system' | 'user' | 'assistant', content: string}} Message */

const ROLES = /** @type {const} */ (['system', 'user', 'assistant']);

/**
 * Texts before and after the messages of each role. `stop` ends an answer. Without texts for
 * `system`, such a message begins the user's first. `defaultSystem` is the message of a conversation
 * that has none.
 */
export class ChatForm {
  /** @param {string} mark @param {Record<string, [string, string]>} around @param {string} stop */
  constructor(mark, around, stop, defaultSystem = '') {
    this.mark = mark;
    this.around = around;
    this.stop = stop;
    this.defaultSystem = defaultSystem;
  }

  /** @param {Message[]} messages */
  text(messages) {
    return this.pieces(messages)
      .map(([text]) => text)
      .join('');
  }

  /**
   * Texts in order, and whether each is an answer, with its end, of the assistant.
   * @param {Message[]} messages @returns {[string, boolean][]}
   */
  pieces(messages) {
    return this.#withSystem(messages).flatMap(({ role, content }) => {
      const [before, after] = this.around[role];
      const isAnswer = role === 'assistant';
      const rest = isAnswer && after.startsWith(this.stop) ? after.slice(this.stop.length) : after;
      /** @type {[string, boolean][]} */
      return [
        [before, false],
        [content + (isAnswer ? this.stop : ''), isAnswer],
        [rest, false],
      ];
    });
  }

  /** The text that the assistant's next message continues. @param {Message[]} messages */
  question(messages) {
    return this.text(messages) + this.around.assistant[0];
  }

  /** @param {Message[]} messages @returns {Message[]} */
  #withSystem(messages) {
    const [first, ...rest] = messages;
    const isGiven = first?.role === 'system';
    if (!isGiven && this.defaultSystem)
      return [{ role: 'system', content: this.defaultSystem }, ...messages];
    if (!isGiven || 'system' in this.around) return messages;
    if (!rest.length) fail('text', 'messages', 'the model takes no message of the system alone');
    const content = `${first.content}\n\n${rest[0].content}`;
    return [{ ...rest[0], content }, ...rest.slice(1)];
  }
}

/** @param {string} before with ROLE in it @param {string} after @returns {Record<string, [string, string]>} */
function allRoles(before, after) {
  return Object.fromEntries(ROLES.map(role => [role, [before.replace('ROLE', role), after]]));
}

/** By a mark that only templates of this form have. The first that is there decides. */
const FORMS = [
  new ChatForm('<|im_start|>', allRoles('<|im_start|>ROLE\n', '<|im_end|>\n'), '<|im_end|>'),
  new ChatForm(
    '<|start_header_id|>',
    allRoles('<|start_header_id|>ROLE<|end_header_id|>\n\n', '<|eot_id|>'),
    '<|eot_id|>',
  ),
  new ChatForm(
    '<start_of_turn>',
    {
      user: ['<start_of_turn>user\n', '<end_of_turn>\n'],
      assistant: ['<start_of_turn>model\n', '<end_of_turn>\n'],
    },
    '<end_of_turn>',
  ),
  new ChatForm('<|end|>', allRoles('<|ROLE|>\n', '<|end|>\n'), '<|end|>'),
];
const SYSTEM = /<\|im_start\|>system\n([^{}<>|]*)<\|im_end\|>/;

/** The form of a chat template; undefined for one that is not known. @param {string} template */
export function chatForm(template) {
  const form = FORMS.find(({ mark }) => template.includes(mark));
  if (form?.mark !== FORMS[0].mark) return form;
  // What templates of this form insert where a conversation has no message of the system.
  const system = SYSTEM.exec(template.replaceAll('\\n', '\n'))?.[1] ?? '';
  return new ChatForm(form.mark, form.around, form.stop, system);
}
