// Checkpoints: in the browser's storage, and as files.

$('save').onclick = guarded(async () =>
  say(
    (await page.model.store())
      ? `Saved step ${page.step} in this browser.`
      : `Saved step ${page.step} in this browser (until it runs out of space).`,
  ),
);
$('restore').onclick = guarded(async () => {
  await page.stop();
  const notes = await page.model.recall();
  say(
    notes
      ? [`Restored step ${page.step}.`, ...notes].join(' ')
      : 'Nothing is saved in this browser yet.',
  );
  await page.announce('values');
});
$('download').onclick = guarded(async () =>
  download(await page.model.save(), `${plan.model.name}-${page.step}.safetensors`),
);
$('open').onchange = guarded(async ({ target }) => {
  await page.stop();
  const notes = await page.model.restore(await target.files[0].arrayBuffer());
  say([`Opened step ${page.step}.`, ...notes].join(' '));
  await page.announce('values');
});
document.onvisibilitychange = () => {
  if (document.hidden && page.running) page.model.store().catch(() => {});
};
page.when('loaded', () => {
  $('keep').hidden = !trainer;
});
