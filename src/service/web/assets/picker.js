// Narrows a long list of agents on the consent page as someone types. The field is hidden without this script.
(() => {
  'use strict';
  const field = document.getElementById('find-agent-field');
  if (!field) return;
  const box = document.getElementById('find-agent');
  const status = document.getElementById('found-agents');
  const choices = [...document.querySelectorAll('.choices.many .choice')];

  const show = () => {
    const words = box.value.toLowerCase().split(/\s+/);
    let found = 0;
    for (const choice of choices) {
      const text = choice.textContent.toLowerCase();
      const matches = words.every((word) => text.includes(word));
      if (matches) found += 1;
      // The chosen one stays in view: people must see what they allow.
      choice.hidden = !matches && !choice.querySelector('input').checked;
    }
    if (!box.value.trim()) status.textContent = '';
    else if (found === 0) status.textContent = 'No agent matches.';
    else status.textContent = `${found} of ${choices.length} agents match.`;
  };
  box.addEventListener('input', show);
  // Enter in a field would press the first button, which allows the app.
  box.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') event.preventDefault();
  });
  field.hidden = false;
  // A browser may have kept the text from before a reload.
  show();
})();
