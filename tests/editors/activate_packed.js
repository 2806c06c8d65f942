// Activates the packed extension, whose real client starts a server; VS Code itself is a stand-in
// that answers every question with nothing. Prints the first message that the server got.
const { existsSync, readFileSync } = require('node:fs');
const Module = require('node:module');
const path = require('node:path');

const [extension, program, received] = process.argv.slice(2);

/** Any class, function or value of VS Code: it can be called, extended, awaited and read. */
function standIn(name) {
  class Anything {
    constructor() {
      // biome-ignore lint/correctness/noConstructorReturn: every member of it is a stand-in, too.
      return withMembers(this, name);
    }
  }
  return withMembers(Anything, name);
}

function withMembers(target, name) {
  return new Proxy(target, {
    get(object, key) {
      if (key === 'then' || key === Symbol.toPrimitive) return undefined;
      if (key === Symbol.iterator) return [][Symbol.iterator];
      if (key in object) return object[key];
      return answers[`${name}.${String(key)}`] ?? standIn(`${name}.${String(key)}`);
    },
    apply: () => standIn(name),
  });
}

const event = () => ({ dispose() {} });
const answers = {
  'vscode.version': '1.90.0',
  'vscode.workspace.getConfiguration': () => ({ get: () => program }),
  'vscode.workspace.textDocuments': [],
  'vscode.workspace.workspaceFolders': [],
  'vscode.workspace.notebookDocuments': [],
  'vscode.window.visibleTextEditors': [],
  'vscode.window.tabGroups': { all: [], onDidChangeTabs: event },
  'vscode.env.language': 'en',
  'vscode.env.appName': 'test',
  'vscode.window.showErrorMessage': text => console.error(text),
};
const load = Module._load;
Module._load = (name, ...rest) => (name === 'vscode' ? standIn('vscode') : load(name, ...rest));

const { activate } = require(path.resolve(extension));
process.on('unhandledRejection', () => {});
activate({ subscriptions: [] });
const waiting = setInterval(() => {
  if (!existsSync(received)) return;
  clearInterval(waiting);
  console.log(readFileSync(received, 'utf8'));
  process.exit(0);
}, 50);
