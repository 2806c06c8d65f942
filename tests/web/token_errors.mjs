// What is said of a file of tokens that cannot be read: node token_errors.mjs BUNDLE…
import { pathToFileURL } from 'node:url';

const seen = [];
for (const folder of process.argv.slice(2)) {
  const { load } = await import(pathToFileURL(`${folder}/index.js`));
  const model = await load({ device: 'wasm' });
  const said = [];
  // The second time it is tried again.
  for (let i = 0; i < 2; i++)
    said.push(await model.tokens().catch(({ code, message }) => [code, message]));
  await model
    .generate('a')
    .next()
    .catch(({ code, message }) => said.push([code, message]));
  seen.push(said);
  model.dispose();
}
console.log(JSON.stringify(seen));
process.exit();
