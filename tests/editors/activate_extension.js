// Runs the extension with stand-ins for the modules that VS Code gives it, and prints what it did.
const Module = require('node:module');
const path = require('node:path');

const [extension, model, program] = process.argv.slice(2);
const done = { commands: {}, client: null, opened: null, messages: [] };

class LanguageClient {
  constructor(id, name, run, options) {
    done.client = { id, name, run, options };
  }
  async start() {
    done.client.started = true;
  }
  needsStop() {
    return done.client.started;
  }
  async stop() {
    done.client.started = false;
  }
}

const document = { languageId: 'wg', uri: { fsPath: model }, save: async () => true };
const vscode = {
  workspace: { getConfiguration: () => ({ get: () => program }) },
  window: {
    activeTextEditor: { document },
    showErrorMessage: text => done.messages.push(text),
    withProgress: (_options, task) => task(),
  },
  commands: {
    registerCommand: (name, run) => {
      done.commands[name] = run;
      return {};
    },
  },
  env: {
    openExternal: async uri => {
      done.opened = uri;
    },
  },
  Uri: { file: file => file },
  ProgressLocation: { Notification: 15 },
};
const modules = { vscode, 'vscode-languageclient/node': { LanguageClient } };
const load = Module._load;
Module._load = (name, ...rest) => modules[name] ?? load(name, ...rest);

async function main() {
  const { activate, deactivate } = require(path.resolve(extension));
  await activate({ subscriptions: [] });
  await done.commands['wgcc.openPage']();
  await done.commands['wgcc.restart']();
  done.restarted = done.client.started;
  await deactivate();
  done.stopped = !done.client.started;
  done.commands = Object.keys(done.commands);
  console.log(JSON.stringify(done));
}

main();
