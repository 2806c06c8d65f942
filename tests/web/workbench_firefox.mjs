// The workbench in Firefox, from a host with a strict policy: node workbench_firefox.mjs SITE PROGRAM.
// An address with a mistake and hostile names fills the editor and runs nothing; fixed, it trains.
import { deflateRawSync } from 'node:zlib';
import { openFirefox } from './bidi.mjs';
import { answer, serve } from './browser.mjs';

const [site, program] = process.argv.slice(2);
// That of the page, and what only a header can say.
const POLICY =
  "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self' blob:; " +
  "connect-src 'self' blob: data:; style-src 'self' 'unsafe-inline'; img-src 'self' blob: data:; " +
  "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";
const server = await serve({ '/': site }, { 'content-security-policy': POLICY });
const { evaluate, text, until, preload, goTo } = await openFirefox(program);
const seen = {};

/** In the page and its frame: what the policy refused. */
await preload(() => {
  globalThis.refused = [];
  document.addEventListener('securitypolicyviolation', event =>
    globalThis.refused.push(`${event.effectiveDirective} ${event.blockedURI}`),
  );
});

const ATTACK = '<img src=x onerror="globalThis.wasRun = true">';
const model = `/// ${ATTACK}
dim B = 128
model Attacked {
  fc: Linear[1, 1]
  optimizer opt: sgd { lr = 0.1 }
  entry train(x: f32[B, 1], y: f32[B, 1]) -> (loss: f32) {
    loss = mse(fc(x) |> tahn, y)
    minimize loss with opt
    return loss
  }
}
`;
const content = { files: { 'model.wg': model }, main: 'model.wg', tab: ATTACK, sizes: { B: 64 } };
const packed = deflateRawSync(JSON.stringify(content)).toString('base64url');
await goTo(`${server.url}/?embed#m=${packed}`);
await until('globalThis.wgccChecked?.problems === 1');
await evaluate("document.querySelector('.problem').scrollIntoView()");
seen.problem = await text('problems');
seen.before = await evaluate('Boolean(globalThis.wgccBuilt)');
await evaluate("document.querySelector('.problem button').click()");
await until('globalThis.wgccChecked.problems === 0');
await until("!document.getElementById('train').disabled");
await evaluate("document.getElementById('train').click()");
const page = "document.getElementById('frame').contentWindow?.wgccPage";
await until(
  `${page}?.curves?.training?.loss?.length > 8 || document.body.dataset.state === 'error'`,
);
seen.state = await evaluate('document.body.dataset.state');
seen.losses = JSON.parse(
  await evaluate(`JSON.stringify(${page}.curves.training.loss.map(([, loss]) => loss))`),
);
seen.wasRun = await evaluate(
  "Boolean(globalThis.wasRun || document.getElementById('frame').contentWindow.wasRun)",
);
seen.refused = JSON.parse(await evaluate('JSON.stringify(globalThis.refused)'));
server.close();
answer(seen);
