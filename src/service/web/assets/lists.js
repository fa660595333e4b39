// Keeps a list current while someone looks at it: the service reports a change, and the page fetches itself again.
// Without this script, the reader reloads the page. The pages of a browser share a stream (streams.js). Without one,
// each page polls every few seconds.
(() => {
  'use strict';
  const POLL = 5000,
    POLL_BESIDE_STREAM = 30000;
  const list = document.getElementById('list');
  if (!list?.dataset.live || !window.EventSource) return;
  let mark = list.dataset.mark,
    turn = 0,
    isFetching = false,
    mustFetchAgain = false;
  let source, leave, timer;
  let isStreaming = false;

  const nameOf = (element) =>
    element && list.contains(element)
      ? (element.getAttribute('href') ?? element.closest('form')?.getAttribute('action'))
      : undefined;
  const focus = (name) => {
    if (!name) return;
    for (const one of list.querySelectorAll('a, button'))
      if (nameOf(one) === name) return one.focus({ preventScroll: true });
  };
  const replace = async () => {
    const answer = await fetch(location.href, { headers: { accept: 'text/html' } }).catch(() => undefined);
    if (!answer?.ok) return;
    if (answer.redirected) return finish();
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    const fresh = page.getElementById('list');
    // Ages are relative to the service's time, which the page contains.
    const bar = page.querySelector('[data-now]');
    if (!fresh || !bar) return;
    const focused = nameOf(document.activeElement);
    list.dataset.mark = mark = fresh.dataset.mark;
    document.dispatchEvent(new CustomEvent('asp-now', { detail: Number(bar.dataset.now) }));
    list.replaceChildren(...fresh.childNodes);
    // The number of things that need the person is in the title and in the navigation.
    document.title = page.title;
    const needs = 'header a[href="/dashboard/needs-you"]';
    document.querySelector(needs)?.replaceChildren(...(page.querySelector(needs)?.childNodes ?? []));
    focus(focused);
  };
  const refresh = async () => {
    mustFetchAgain = true;
    if (isFetching) return;
    isFetching = true;
    while (mustFetchAgain) {
      mustFetchAgain = false;
      await replace();
    }
    isFetching = false;
  };
  const address = () => `${list.dataset.live}?mark=${mark}`;
  const close = () => {
    turn += 1;
    clearTimeout(timer);
    if (source) source.close();
    if (leave) leave();
    source = leave = undefined;
    isStreaming = false;
  };
  const finish = () => {
    close();
    turn = Number.NaN;
  };
  const poll = async () => {
    const mine = turn;
    const answer = await fetch(address(), { headers: { accept: 'application/json' } }).catch(() => undefined);
    const found = answer?.ok ? await answer.json().catch(() => undefined) : undefined;
    if (mine !== turn) return;
    if (answer?.status === 401) return finish();
    if (found && found.mark !== mark) refresh();
    clearTimeout(timer);
    timer = setTimeout(leave ? poll : open, isStreaming ? POLL_BESIDE_STREAM : POLL);
  };
  const shareStream = () => {
    leave = window.follow('list', {
      news: (fresh) => fresh !== mark && refresh(),
      state: (isOpen) => {
        isStreaming = isOpen;
        clearTimeout(timer);
        poll();
      },
    });
    timer = setTimeout(poll, POLL);
  };
  const open = () => {
    close();
    if (Number.isNaN(turn) || document.hidden) return;
    if (window.follow) return shareStream();
    source = new EventSource(address());
    source.addEventListener('changed', ({ data }) => data !== mark && refresh());
    source.addEventListener('end', finish);
    source.onerror = () => {
      if (source.readyState !== EventSource.CLOSED) return;
      close();
      timer = setTimeout(poll, POLL);
    };
  };
  document.addEventListener('visibilitychange', () => (document.hidden ? close() : open()));
  addEventListener('pagehide', close);
  addEventListener('pageshow', (event) => event.persisted && open());
  open();
})();
