// Shows times in the reader's time zone, and starts each day of a transcript at the reader's midnight. It runs before
// the browser paints, on the first load and on everything that arrives later. Without this script, times are in UTC and
// say so. The service replaces TIME_FORMS and TWELVE_HOURS with its own formats. The reader may prefer UTC, or AM and PM.
(() => {
  'use strict';
  const FORMS = TIME_FORMS;
  const { hours, zone } = document.documentElement.dataset;
  const adapt = (form) => ({
    ...form,
    ...(form.hour && hours === '12' && TWELVE_HOURS),
    ...(zone === 'utc' && { timeZone: 'UTC' }),
  });
  const formats = Object.fromEntries(
    Object.entries(FORMS).map(([name, form]) => [name, new Intl.DateTimeFormat('en-US', adapt(form))]),
  );
  const write = (name, time) =>
    `${formats[name].format(new Date(time.dateTime))}${name === 'day' && zone === 'utc' ? ', UTC' : ''}`;
  // Ages count from the moment at which the service made the page, by its clock.
  const MINUTE = 60000,
    HOUR = 60 * MINUTE,
    DAY = 24 * HOUR;
  let madeAt,
    shownAt = 0;
  const count = (number, unit) => `${number} ${unit}${number === 1 ? '' : 's'} ago`;
  const ageOf = (time) => {
    const age = madeAt + performance.now() - shownAt - new Date(time.dateTime);
    if (age < MINUTE) return 'just now';
    if (age < HOUR) return count(Math.floor(age / MINUTE), 'minute');
    if (age < DAY) return count(Math.floor(age / HOUR), 'hour');
    if (age < 2 * DAY) return 'yesterday';
    return age < 14 * DAY ? count(Math.floor(age / DAY), 'day') : write('date', time);
  };
  const localize = (time) => {
    const { form } = time.dataset;
    time.title = write('moment', time);
    if (!form) return;
    if (form === 'age' && madeAt === undefined) return;
    const text = form === 'age' ? ageOf(time) : write(form, time);
    if (time.textContent !== text) time.textContent = text;
  };
  const setNow = (now) => {
    madeAt = now;
    shownAt = performance.now();
  };
  const localizeAges = () => document.querySelectorAll('time[data-form=age]').forEach(localize);
  document.addEventListener('asp-now', ({ detail }) => {
    setNow(detail);
    localizeAges();
  });
  const beginDay = (entry, { dateTime }) => {
    const day = document.createElement('li');
    day.className = 'day';
    const time = day.appendChild(document.createElement('span')).appendChild(document.createElement('time'));
    time.dateTime = dateTime;
    time.dataset.form = 'day';
    entry.before(day);
  };
  const days = new WeakMap();
  const divide = (list) => {
    let last;
    for (const entry of [...list.children]) {
      if (!entry.classList.contains('entry')) continue;
      const time = days.has(entry) ? undefined : entry.querySelector('time');
      if (time) days.set(entry, [write('day', time), time]);
      const [day, start] = days.get(entry) ?? [];
      if (!start) return;
      const before = entry.previousElementSibling;
      const heading = before?.classList.contains('day') ? before : undefined;
      if (day === last && heading) heading.remove();
      if (day !== last && !heading) beginDay(entry, start);
      last = day;
    }
  };
  // Reads only what has changed, so that a long transcript does not cost more with each message.
  const look = (changes) => {
    if (madeAt === undefined) {
      const bar = document.querySelector('[data-now]');
      if (bar) setNow(Number(bar.dataset.now));
    }
    const times = new Set();
    const lists = new Set();
    for (const { target, addedNodes } of changes) {
      const element = target instanceof Element ? target : target.parentElement;
      const [time, list] = [element?.closest('time'), element?.closest('.entries')];
      if (time) times.add(time);
      if (list) lists.add(list);
      for (const node of addedNodes) {
        if (!(node instanceof Element)) continue;
        if (node.matches('time')) times.add(node);
        for (const one of node.querySelectorAll('time')) times.add(one);
        for (const one of node.querySelectorAll('.entries')) lists.add(one);
      }
    }
    lists.forEach(divide);
    times.forEach(localize);
  };
  setInterval(localizeAges, MINUTE / 2);
  new MutationObserver(look).observe(document, { childList: true, characterData: true, subtree: true });
})();
