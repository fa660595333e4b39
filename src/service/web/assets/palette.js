// The palette: Ctrl K, or ⌘ K on a Mac, finds pages, agents, sessions and actions while someone types. It takes its rows
// from the page that does the same without a script. It is a combobox (ARIA, APG): the focus stays in the field, and the
// arrow keys choose. Like all shortcuts it exists only if the settings have not turned them off.
document.addEventListener('DOMContentLoaded', () => {
  'use strict';
  const WAIT = 120;
  const palette = document.getElementById('palette');
  if (!palette) return;
  const form = palette.querySelector('form');
  const field = palette.querySelector('input');
  const list = palette.querySelector('ul');
  const status = palette.querySelector('[role="status"]');
  const isMac = /mac|iphone|ipad/i.test(navigator.platform);
  let timer, asked, shown;

  const options = () => [...list.children];
  const choose = (index) => {
    const all = options();
    const chosen = all[Math.max(0, Math.min(index, all.length - 1))];
    for (const one of all) one.setAttribute('aria-selected', one === chosen);
    if (chosen) field.setAttribute('aria-activedescendant', chosen.id);
    else field.removeAttribute('aria-activedescendant');
    chosen?.scrollIntoView({ block: 'nearest' });
  };
  const chosenAt = () => options().findIndex((one) => one.getAttribute('aria-selected') === 'true');
  const toOption = (row, index) => {
    const link = row.querySelector('a');
    const option = document.createElement('li');
    const name = document.createElement('bdi');
    const kind = document.createElement('span');
    option.id = `place-${index}`;
    option.role = 'option';
    option.dataset.href = link.getAttribute('href');
    name.textContent = link.textContent;
    kind.textContent = row.lastElementChild.textContent;
    kind.className = 'soft small';
    option.append(name, ' ', kind);
    return option;
  };
  const show = (rows, text) => {
    list.replaceChildren(...rows);
    field.setAttribute('aria-expanded', rows.length > 0);
    status.textContent = text;
    choose(0);
  };
  // False if another text was asked for in the meantime, or the palette was closed.
  const load = async () => {
    clearTimeout(timer);
    asked?.abort();
    asked = new AbortController();
    const { signal } = asked;
    const q = field.value.trim();
    try {
      const answer = await fetch(`${palette.dataset.places}?q=${encodeURIComponent(q)}`, { signal, redirect: 'error' });
      if (!answer.ok) throw new Error();
      const found = new DOMParser().parseFromString(await answer.text(), 'text/html').querySelectorAll('#places > li');
      const rows = [...found].map(toOption);
      show(rows, `${rows.length} found`);
    } catch {
      if (signal.aborted) return false;
      show([], 'Not available right now. Press Enter to search.');
    }
    shown = q;
    return true;
  };
  const go = (option) => {
    palette.close();
    location.assign(option.dataset.href);
  };

  document.addEventListener('keydown', (event) => {
    const isOurs = isMac ? event.metaKey && !event.ctrlKey : event.ctrlKey && !event.metaKey;
    if (!isOurs || event.altKey || event.shiftKey || event.key.toLowerCase() !== 'k') return;
    event.preventDefault();
    if (palette.open) return palette.close();
    document.getElementById('keys')?.close();
    field.value = '';
    palette.showModal();
    load();
  });
  field.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(load, WAIT);
  });
  field.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.isComposing) return;
    event.preventDefault();
    const { length } = list.children;
    if (length > 0) choose((chosenAt() + step + length) % length);
  });
  // Rows of an earlier text are not what Enter means: it waits for those of this text, and searches if there are none.
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    if (shown !== field.value.trim() && !(await load())) return;
    const chosen = options()[chosenAt()];
    if (chosen) go(chosen);
    else form.submit();
  });
  list.addEventListener('click', ({ target }) => {
    const option = target.closest('li');
    if (option) go(option);
  });
  palette.addEventListener('click', ({ target }) => target === palette && palette.close());
  palette.addEventListener('close', () => asked?.abort());
});
