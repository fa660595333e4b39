import { TIME_FORMS } from './time.js';

/**
 * Writes times in the zone of whoever reads them, and begins the days of a transcript where they begin there. It runs before
 * what it changes is painted, on the first load and on what comes later. Without it all is in UTC, and says so (D-200).
 */
export const TIME_SCRIPT = `(() => {
'use strict';
const FORMS = ${JSON.stringify(TIME_FORMS)};
const formats = Object.fromEntries(Object.entries(FORMS).map(([name, form]) => [name, new Intl.DateTimeFormat('en-GB', form)]));
const write = (name, time) => formats[name].format(new Date(time.dateTime));
const localize = (time) => {
  const { form } = time.dataset;
  time.title = write('moment', time);
  if (!form) return;
  const text = write(form, time);
  if (time.textContent !== text) time.textContent = text;
};
const beginDay = (entry, { dateTime }) => {
  const day = document.createElement('li');
  day.className = 'day';
  const time = day.appendChild(document.createElement('span')).appendChild(document.createElement('time'));
  time.dateTime = dateTime;
  time.dataset.form = 'day';
  entry.before(day);
};
const divide = (list) => {
  let last;
  for (const entry of list.querySelectorAll(':scope > .entry')) {
    const time = entry.querySelector('time');
    if (!time) return;
    const before = entry.previousElementSibling;
    const heading = before && before.classList.contains('day') ? before : undefined;
    const day = write('day', time);
    if (day === last && heading) heading.remove();
    if (day !== last && !heading) beginDay(entry, time);
    last = day;
  }
};
const look = () => {
  document.querySelectorAll('.entries').forEach(divide);
  document.querySelectorAll('time').forEach(localize);
};
new MutationObserver(look).observe(document, { childList: true, characterData: true, subtree: true });
})();`;
