// Programs on a page run in the workbench, where the site has one: it opens in place of a button.

const { workbench } = document.body.dataset;

/** @param {HTMLElement} block */
function addButton(block) {
  const button = document.createElement('button');
  button.className = 'run-program';
  button.textContent = 'Open in the workbench';
  button.onclick = () => {
    const frame = document.createElement('iframe');
    frame.src = `${workbench}?embed${block.dataset.program}`;
    frame.title = 'This program in the workbench';
    frame.className = 'workbench';
    button.replaceWith(frame);
  };
  block.after(button);
}

// Browsers start no compiler from a disk.
if (workbench && location.protocol !== 'file:')
  for (const block of document.querySelectorAll('[data-program]')) addButton(block);
