// Shows a notification when something new needs the person while no page of the dashboard is in view. The page that
// holds the shared stream (streams.js) shows it, even while hidden, so that each notification appears only once. The
// keys of earlier news are in the browser's storage, because each page of the dashboard starts without them.
(() => {
  'use strict';
  const SWITCH = 'asp-notify',
    KNOWN = 'asp-notified';
  const isAble = Boolean(window.Notification && window.follow);
  // The service worker shows them then (worker.js).
  const isPushed = () => document.querySelector('[data-pushed]') !== null;
  const isOn = () =>
    isAble && !isPushed() && Notification.permission === 'granted' && localStorage.getItem(SWITCH) === 'on';

  const show = (key, title, body, path) => {
    const note = new Notification(title, { body, tag: key });
    note.onclick = () => {
      note.close();
      window.focus();
      // Whatever someone is typing in this page stays.
      if (path && !window.open(path, 'asp-need')) location.assign(path);
    };
    return note;
  };
  const shown = new Map();
  const take = async (needs) => {
    const { held } = await navigator.locks.query();
    const keys = needs.map(({ key }) => key);
    const known = JSON.parse(localStorage.getItem(KNOWN) ?? 'null');
    localStorage.setItem(KNOWN, JSON.stringify(keys));
    for (const [key, note] of shown) {
      if (keys.includes(key)) continue;
      note.close();
      shown.delete(key);
    }
    if (known === null || held.some(({ name }) => name === 'asp-in-view')) return;
    for (const { key, title, text, path } of needs)
      if (!known.includes(key)) shown.set(key, show(key, title, text, path));
  };

  let stop, leaveView;
  const start = () => {
    if (isOn()) stop ??= window.follow('needs', { news: (needs) => take(JSON.parse(needs)) });
  };
  const look = () => {
    leaveView?.();
    leaveView = undefined;
    if (!isOn() || document.hidden) return;
    const hold = () => document.hidden || new Promise((done) => (leaveView = done));
    navigator.locks.request('asp-in-view', { mode: 'shared' }, hold).catch(() => {});
  };
  const pause = () => {
    stop?.();
    leaveView?.();
    stop = leaveView = undefined;
  };
  const resume = () => {
    pause();
    start();
    look();
  };

  const connect = (section) => {
    const input = section.querySelector('input');
    const say = (state) => {
      input.checked = isOn();
      for (const one of section.querySelectorAll('[data-when]'))
        one.hidden = !one.dataset.when.split(' ').includes(state);
    };
    const sayUsual = () => {
      if (isPushed()) say('pushed');
      else if (!window.isSecureContext) say('insecure');
      else if (!isAble) say('unable');
      else say(Notification.permission === 'denied' ? 'denied' : 'able');
    };
    const turnOn = async () => {
      // From here on, a screen reader announces what the page says. While the page loads, that would come before the title.
      section.querySelector('[aria-live]').setAttribute('aria-live', 'polite');
      const answer = await Notification.requestPermission();
      if (answer !== 'granted') return answer === 'denied' ? say('denied') : say('unanswered');
      try {
        show('asp-on', section.dataset.on, '');
      } catch {
        // Some phone browsers define Notification but refuse to create one.
        return say('unable');
      }
      localStorage.removeItem(KNOWN);
      localStorage.setItem(SWITCH, 'on');
      sayUsual();
      resume();
    };
    input.addEventListener('change', () => {
      if (input.checked) return turnOn();
      localStorage.removeItem(SWITCH);
      resume();
    });
    addEventListener('storage', sayUsual);
    sayUsual();
  };
  document.addEventListener('DOMContentLoaded', () => {
    const section = document.getElementById('notifications');
    if (section) connect(section);
    resume();
  });
  document.addEventListener('visibilitychange', look);
  addEventListener('storage', ({ key }) => key === SWITCH && resume());
  addEventListener('pagehide', pause);
  addEventListener('pageshow', ({ persisted }) => persisted && resume());
})();
