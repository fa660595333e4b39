// Keyboard shortcuts of the dashboard: single keys, and G followed by the letter of a place. They never act while
// someone types or holds a modifier key. The settings turn them off (WCAG 2.2, 2.1.4): then the page has no overview
// of them, and this script does nothing.
document.addEventListener('DOMContentLoaded', () => {
  'use strict';
  const SEQUENCE = 1500;
  const overview = document.getElementById('keys');
  if (!overview) return;

  // Where J and K stop: the entries of a transcript, or the first link or control of each row.
  const listStops = () => {
    const entries = [...document.querySelectorAll('#log > ol > .entry')];
    if (entries.length > 0) return entries;
    const rows = [...document.querySelectorAll('#main .row')];
    return rows.map((row) => row.querySelector('.row-link') ?? row.querySelector('a, button')).filter(Boolean);
  };
  const move = (step) => {
    const stops = listStops();
    const around = (stop) => stop.closest('.row, .entry');
    const at = stops.findIndex((stop) => around(stop).contains(document.activeElement));
    // The Tab key enters a transcript at its newest entry, or where the reader was before.
    const entrance = stops.findIndex(({ tabIndex }) => tabIndex === 0);
    const next =
      at === -1 ? stops[step > 0 || stops[0]?.matches('.entry') ? entrance : stops.length - 1] : stops[at + step];
    next?.focus();
  };
  const search = () => {
    const field = document.querySelector('#main [role="search"] input:not([type="hidden"])');
    if (!field) return document.querySelector('.find').click();
    field.focus();
    field.select();
  };
  const ACTIONS = {
    j: () => move(1),
    k: () => move(-1),
    '/': search,
    '?': () => overview.showModal(),
    c: () => document.querySelector('#composer textarea')?.focus(),
  };

  let goingUntil = 0;
  document.addEventListener('keydown', (event) => {
    const { key, target, timeStamp } = event;
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (target.closest('input, textarea, select, [contenteditable]')) return;
    if (overview.open) {
      if (key === '?') overview.close();
      return;
    }
    const isPlace = timeStamp < goingUntil;
    goingUntil = 0;
    if (isPlace) {
      const place = document.querySelector(`.bar [data-go="${CSS.escape(key)}"]`);
      if (!place) return;
      event.preventDefault();
      return place.click();
    }
    if (key === 'g') goingUntil = timeStamp + SEQUENCE;
    if (!Object.hasOwn(ACTIONS, key) || (event.repeat && key !== 'j' && key !== 'k')) return;
    event.preventDefault();
    ACTIONS[key]();
  });
  document.querySelector('.find').setAttribute('aria-keyshortcuts', '/');
  overview.addEventListener('click', ({ target }) => {
    if (target === overview || target.matches('button')) overview.close();
  });
});
