// Writes times in the reader's own time zone, and starts each day of a transcript where it starts there. It runs before what it
// changes is painted, on the first load and on everything that arrives later. Without it, times are in UTC and say so.
// The service puts its own formats in place of TIME_FORMS.
(() => {
  'use strict';
  const FORMS = TIME_FORMS;
  const formats = Object.fromEntries(
    Object.entries(FORMS).map(([name, form]) => [name, new Intl.DateTimeFormat('en-GB', form)]),
  );
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
      const heading = before?.classList.contains('day') ? before : undefined;
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
})();
