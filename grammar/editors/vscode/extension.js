// Starts `wgcc lsp` for .wg files, and builds and opens a model's page. All knowledge of the
// language is in the server.

const { execFile } = require('node:child_process');
const path = require('node:path');
const vscode = require('vscode');
const { LanguageClient } = require('vscode-languageclient/node');

let client;

/** The program that the user chose. */
function program() {
  return vscode.workspace.getConfiguration('wgcc').get('command', 'wgcc');
}

async function start() {
  const run = { command: program(), args: ['lsp'] };
  const options = { documentSelector: [{ language: 'wg' }] };
  client = new LanguageClient('wgcc', 'wgcc', run, options);
  try {
    await client.start();
  } catch (error) {
    const advice = "pip install 'wgcc[lsp]', or set wgcc.command to the program's path";
    vscode.window.showErrorMessage(`wgcc lsp did not start: ${error.message ?? error} (${advice})`);
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running?.needsStop()) await running.stop();
}

/** Builds the model of the active editor into the folder `bundle` beside it. */
async function openPage() {
  const document = vscode.window.activeTextEditor?.document;
  if (document?.languageId !== 'wg') {
    vscode.window.showErrorMessage('Open a .wg file first.');
    return;
  }
  await document.save();
  const model = document.uri.fsPath;
  const bundle = path.join(path.dirname(model), `${path.basename(model, '.wg')}-bundle`);
  const title = `Building ${path.basename(model)}`;
  const location = vscode.ProgressLocation.Notification;
  try {
    await vscode.window.withProgress({ location, title }, () => build(model, bundle));
  } catch (error) {
    vscode.window.showErrorMessage(error.message);
    return;
  }
  await vscode.env.openExternal(vscode.Uri.file(path.join(bundle, 'index.html')));
}

function build(model, bundle) {
  return new Promise((resolve, reject) => {
    execFile(program(), ['build', model, '-o', bundle], (error, _stdout, stderr) => {
      if (error) reject(new Error(stderr.trim() || error.message));
      else resolve();
    });
  });
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand('wgcc.openPage', openPage),
    vscode.commands.registerCommand('wgcc.restart', async () => {
      await stop();
      await start();
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
