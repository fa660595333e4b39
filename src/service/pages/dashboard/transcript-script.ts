/**
 * Lets a transcript grow while it is looked at. Entries come as markup that the service has escaped; the page works without
 * this, by being loaded again. A tab that nobody sees holds no connection.
 */
export const TRANSCRIPT_SCRIPT = `(() => {
'use strict';
const KEPT = 500, NEAR = 120, FIRST_WAIT = 1000, LONGEST_WAIT = 30000, PATIENCE = 10000;
const WHY = { 401: 'signed-out', 404: 'gone', 429: 'busy' };
const log = document.getElementById('log');
if (!log || !log.dataset.live || !window.EventSource) return;
const list = log.querySelector('ol');
const state = document.getElementById('live');
const head = document.getElementById('head');
const earlier = document.getElementById('earlier');
let after = Number(log.dataset.after), wait = FIRST_WAIT, source, timer, isOver = false;
const say = (name) => {
  if (state.dataset.state !== name) state.dataset.state = name;
};
const isAtEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - NEAR;
const toEnd = () => scrollTo({ top: document.documentElement.scrollHeight });
const add = (markup) => {
  const template = document.createElement('template');
  template.innerHTML = markup;
  const entry = template.content.firstElementChild;
  const sequence = Number(entry.dataset.sequence);
  if (sequence <= after) return;
  entry.classList.add('fresh');
  list.append(entry);
  after = sequence;
};
const forgetOldest = () => {
  while (list.childElementCount > KEPT) list.firstElementChild.remove();
  const first = list.querySelector('[data-sequence]');
  if (list.childElementCount < KEPT || !first) return;
  earlier.hidden = false;
  earlier.firstElementChild.href = earlier.dataset.path + '?before=' + first.dataset.sequence;
};
const close = () => {
  clearTimeout(timer);
  if (source) source.close();
  source = undefined;
};
const address = () => log.dataset.live + '?after=' + after;
const finish = (why) => {
  isOver = true;
  close();
  say(why);
};
// What refuses an EventSource does not tell it why (D-201).
const askWhy = async () => {
  const asked = new AbortController();
  const patience = setTimeout(() => asked.abort(), PATIENCE);
  const answer = await fetch(address(), { signal: asked.signal }).catch(() => undefined);
  clearTimeout(patience);
  asked.abort();
  return answer && WHY[answer.status];
};
const retry = async () => {
  close();
  const why = (await askWhy()) || 'off';
  if (isOver || source) return;
  if (why === 'signed-out' || why === 'gone') return finish(why);
  say(why);
  if (document.hidden) return;
  timer = setTimeout(open, wait);
  wait = Math.min(wait * 2, LONGEST_WAIT);
};
const open = () => {
  close();
  if (isOver || document.hidden) return;
  source = new EventSource(address());
  source.onopen = () => {
    wait = FIRST_WAIT;
    say('on');
  };
  source.addEventListener('entries', (event) => {
    const { entries, head: newHead } = JSON.parse(event.data);
    const follows = isAtEnd();
    const nothing = document.getElementById('nothing');
    if (nothing) nothing.remove();
    for (const entry of entries) add(entry);
    forgetOldest();
    if (newHead) head.innerHTML = newHead;
    if (follows) toEnd();
  });
  source.addEventListener('end', (event) => finish(event.data));
  source.onerror = () => {
    if (source && source.readyState === EventSource.CLOSED) return retry();
    say('off');
  };
};
document.addEventListener('visibilitychange', () => (document.hidden ? close() : open()));
addEventListener('pagehide', close);
addEventListener('pageshow', (event) => event.persisted && open());
say('off');
if (!location.hash) toEnd();
open();
})();`;
