// Lets a transcript grow while someone looks at it. Entries arrive as markup that the service has escaped. Without this
// script, the reader reloads the page. The pages of a browser share a stream (streams.js), which says that there is
// news. Each page fetches its own, and also polls occasionally, for changes that the stream does not report and in case it is
// silent.
(() => {
  'use strict';
  const KEPT = 500,
    KEPT_WHILE_READING = 750,
    NEAR = 120,
    OPENED_AT = 12;
  const POLL = 3000,
    POLL_BESIDE_STREAM = 5000,
    POLLS_AFTER_REFUSAL = 5;
  // News in quick succession appears together, because each change causes a layout of the whole page.
  const TOGETHER = 100;
  // A screen reader hears a single new entry, and only the number of several. It hears nothing more for a while after that.
  const HEARD_TOGETHER = 1000,
    HEARD_PAUSE = 5000,
    HEARD_LENGTH = 300;
  const FIRST_WAIT = 1000,
    LONGEST_WAIT = 30000,
    SIGNED_OUT_WAIT = 5000,
    PATIENCE = 10000;
  const WHY = { 401: 'signed-out', 404: 'gone' };
  const log = document.getElementById('log');
  if (!log) return;
  const list = log.querySelector('ol');

  // The Tab key stops only once in the log. The arrow keys move between entries, and Tab moves on to what is inside the
  // focused one.
  const INSIDE = 'a, button, summary, pre, .scroll';
  let chosen;
  const quiet = (entry) => {
    entry.tabIndex = entry === chosen ? 0 : -1;
    for (const one of entry.querySelectorAll(INSIDE)) one.tabIndex = -1;
  };
  const choose = (entry) => {
    const before = chosen;
    chosen = entry;
    if (before && before !== entry) quiet(before);
    quiet(entry);
  };
  const enter = (entry) => {
    choose(entry);
    for (const one of entry.querySelectorAll(INSIDE)) one.tabIndex = 0;
  };
  const entryOf = (target) => {
    const inner = target.closest('.entry');
    return inner?.parentElement.closest('.entry') ?? inner;
  };
  for (const entry of list.children) if (entry.matches('.entry')) quiet(entry);
  const newest = list.querySelector(':scope > .entry:last-child');
  if (newest) choose(newest);
  list.addEventListener('focusin', ({ target }) => {
    const entry = entryOf(target);
    if (!entry) return;
    enter(entry);
  });
  list.addEventListener('focusout', ({ relatedTarget }) => {
    if (chosen && !chosen.contains(relatedTarget)) quiet(chosen);
  });
  const NEXT = { ArrowDown: 'nextElementSibling', ArrowUp: 'previousElementSibling' };
  list.addEventListener('keydown', (event) => {
    const { key, target } = event;
    if (target.matches('pre, .scroll') || event.altKey || event.ctrlKey || event.metaKey) return;
    const entry = entryOf(target);
    if (!entry) return;
    let next;
    if (key === 'Home') next = list.querySelector(':scope > .entry');
    else if (key === 'End') next = list.querySelector(':scope > .entry:last-child');
    else if (NEXT[key]) {
      next = entry[NEXT[key]];
      while (next && !next.matches('.entry')) next = next[NEXT[key]];
    } else if (key === 'r' && entry === target && document.getElementById('keys')) {
      // The field that gets the focus would get the letter, too.
      event.preventDefault();
      return entry.querySelector('.reply')?.click();
    }
    if (!next) return;
    event.preventDefault();
    next.focus();
  });

  // All of a long message, and its text as it was sent, are on its own page, where the link leads without this script. With it,
  // they open in place, until the same link or the button below closes them.
  const IN_PLACE = '.whole-link, .raw-link';
  const fetchBubble = async (address) => {
    const answer = await fetch(address).catch(() => undefined);
    // Someone who is signed out gets another page.
    if (!answer?.ok || answer.redirected) return;
    return new DOMParser().parseFromString(await answer.text(), 'text/html').querySelector('.bubble');
  };
  const openInPlace = async (link) => {
    const entry = entryOf(link);
    const shown = entry.querySelector('.bubble');
    if (shown.dataset.from === link.href) return shown.lastElementChild.click();
    const fresh = await fetchBubble(link.href);
    if (!fresh) return location.assign(link.href);
    if (!shown.isConnected) return;
    const back = document.createElement('button');
    back.type = 'button';
    back.className = 'back';
    back.textContent = link.dataset.back;
    back.addEventListener('click', () => {
      fresh.replaceWith(shown);
      link.removeAttribute('aria-expanded');
      link.focus();
    });
    fresh.dataset.from = link.href;
    fresh.append(back);
    shown.replaceWith(fresh);
    link.setAttribute('aria-expanded', 'true');
    enter(entry);
    (link.isConnected ? link : entry).focus({ preventScroll: true });
  };
  list.addEventListener('click', (event) => {
    const link = event.target.closest(IN_PLACE);
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    openInPlace(link);
  });
  if (!log.dataset.live || !window.EventSource) return;
  const state = document.getElementById('live');
  const head = document.getElementById('head');
  const managing = document.getElementById('managing');
  const receipt = document.getElementById('receipt');
  const earlier = document.getElementById('earlier');
  const jump = document.getElementById('jump');
  const news = document.getElementById('news');

  // Only the reader's own scrolling decides whether the page follows the end. New entries and growing pictures do not.
  let follows = ['', '#end', '#composer'].includes(location.hash),
    lastY = scrollY,
    unseen = 0,
    isBehind = false;
  // Layout and style cost more with each entry, so a reader who is far from the end gets no more of them until they come
  // closer.
  const isFull = () => !follows && list.childElementCount >= KEPT_WHILE_READING;
  const isAtEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - NEAR;
  const showUnseen = () => {
    if (follows) unseen = 0;
    jump.hidden = unseen === 0;
    const count = `${unseen}${isBehind ? '+' : ''}`;
    if (unseen > 0) jump.textContent = `${count} new message${count === '1' ? '' : 's'} ↓`;
  };
  const toEnd = () => {
    scrollTo({ top: document.documentElement.scrollHeight });
    lastY = scrollY;
  };
  const follow = () => {
    if (isFull()) {
      // Getting everything in between would take longer than a fresh page.
      history.scrollRestoration = 'manual';
      history.replaceState(null, '', `${earlier.dataset.path.slice(0, -1)}#end`);
      return location.reload();
    }
    follows = true;
    toEnd();
    showUnseen();
  };
  const keepUp = () => follows && toEnd();
  const look = () => {
    const wasFull = isFull();
    if (isAtEnd()) {
      if (isBehind) keepLatest(KEPT);
      else follows = true;
      if (wasFull) open();
    } else if (scrollY < lastY) follows = false;
    lastY = scrollY;
    showUnseen();
  };
  addEventListener('scroll', look, { passive: true });
  addEventListener('resize', keepUp);
  new ResizeObserver(keepUp).observe(document.body);
  jump.addEventListener('click', (event) => {
    event.preventDefault();
    follow();
  });
  addEventListener('asp-sent', follow);
  // The reason may be that no one is signed in here.
  addEventListener('asp-refused', () => leave && ask());
  // Data that the reader expands must stay in view.
  log.addEventListener('click', (event) => {
    if (event.target.closest(`summary, ${IN_PLACE}`)) follows = false;
  });
  log.addEventListener('toggle', () => requestAnimationFrame(look), true);

  let after = Number(log.dataset.after),
    wait = FIRST_WAIT,
    turn = 0,
    refusals = 0,
    isOver = false,
    isSignedOut = false;
  let source, leave, asked, timer;
  let isStreaming = false,
    isSharing = false,
    isNews = false;
  const say = (name) => {
    if (state.dataset.state !== name) state.dataset.state = name;
  };
  /** A reply names the message that it answers. Only the page knows whether it shows that message. */
  const pointTo = (answer) => {
    const answered = list.querySelector(`[data-message="${answer.dataset.re}"]`);
    if (!answered) return;
    const link = document.createElement('a');
    link.href = `#${answered.id}`;
    link.textContent = `${answered.querySelector('.by b').textContent}, message ${answered.dataset.sequence}`;
    answer.lastElementChild.replaceWith(link);
    // Another agent's answer settles a question.
    if (answer.closest('.entry').dataset.sender !== answered.dataset.sender)
      answered.querySelector('.offered')?.remove();
  };
  const GROUP = 5 * 60_000;
  const gapInWords = (ms) => {
    if (ms < 9_950) return `+${(ms / 1000).toFixed(1)} s`;
    if (ms < 59_500) return `+${Math.round(ms / 1000)} s`;
    if (ms < 59.5 * 60_000) return `+${Math.round(ms / 60_000)} min`;
    return ms < 23.5 * 3_600_000 ? `+${Math.round(ms / 3_600_000)} h` : `+${Math.round(ms / 86_400_000)} d`;
  };
  /**
   * Mirrors the service's markup for a loaded page: consecutive messages from one sender, and the time since the
   * previous entry.
   */
  const continueFrom = (before, entry) => {
    const timeOf = (one) => Date.parse([...one.querySelectorAll('time')].at(-1)?.dateTime);
    const gap = before ? timeOf(entry) - timeOf(before) : Number.NaN;
    if (before?.dataset.sender && before.dataset.sender === entry.dataset.sender && gap < GROUP)
      entry.classList.add('continued');
    if (!(gap >= 1000)) return;
    const words = document.createElement('span');
    words.className = 'gap';
    words.textContent = gapInWords(gap);
    const later = document.createElement('span');
    later.className = 'hidden-label';
    later.textContent = ' later';
    words.append(later);
    entry.querySelector('.at').after(' ', words);
  };
  let unheard = [],
    heardAt = -HEARD_PAUSE,
    hearing;
  log.setAttribute('aria-live', 'off');
  const BLOCKS = 'p, li, pre, th, td, summary, blockquote, h1, h2, h3, h4, h5, h6, .code, .file';
  /** The words that someone sees, with spaces between lines and cells. */
  const wordsIn = (shown) => {
    const seen = shown.cloneNode(true);
    for (const one of seen.querySelectorAll('button, details:not([open]) > :not(summary)')) one.remove();
    for (const picture of seen.querySelectorAll('img')) picture.replaceWith(` picture ${picture.alt} `);
    for (const block of seen.querySelectorAll(BLOCKS)) block.append(' ');
    return seen.textContent.replace(/\s+/g, ' ').trim();
  };
  const describe = (entry) => {
    const who = entry.querySelector(entry.classList.contains('said') ? '.by b' : '.by > span').textContent;
    const shown = entry.querySelector('.bubble');
    const said = shown ? `${who}: ${wordsIn(shown)}`.slice(0, HEARD_LENGTH) : who;
    const choices = [...entry.querySelectorAll('.offered button')].map(({ textContent }) => textContent);
    return choices.length > 0 ? `${said} Choices: ${choices.join(', ')}` : said;
  };
  const hear = () => {
    const said = unheard.filter((entry) => entry.classList.contains('said')).length;
    const kind = said > 0 ? 'message' : 'event';
    news.textContent =
      unheard.length === 1 ? describe(unheard[0]) : `${said || unheard.length} new ${kind}${said === 1 ? '' : 's'}`;
    unheard = [];
    hearing = undefined;
    heardAt = performance.now();
  };
  const announce = (entry) => {
    unheard.push(entry);
    if (hearing) return;
    // The same words twice would be silent.
    news.textContent = '';
    hearing = setTimeout(hear, Math.max(HEARD_TOGETHER, heardAt + HEARD_PAUSE - performance.now()));
  };
  const add = (markup) => {
    const template = document.createElement('template');
    template.innerHTML = markup;
    const entry = template.content.firstElementChild;
    const sequence = Number(entry.dataset.sequence);
    if (sequence <= after) return;
    entry.classList.add('fresh');
    const before = list.lastElementChild;
    continueFrom(before?.matches('.entry') ? before : undefined, entry);
    for (const answer of entry.querySelectorAll('.re[data-re]')) pointTo(answer);
    list.append(entry);
    announce(entry);
    after = sequence;
    if (chosen && list.contains(document.activeElement)) quiet(entry);
    else choose(entry);
    if (entry.classList.contains('said')) unseen += 1;
  };
  /** Whether some of them are left out. */
  const addAll = (entries) =>
    entries.some((entry) => {
      if (isFull()) return true;
      add(entry);
      return false;
    });
  const keepLatest = (kept) => {
    if (list.childElementCount <= kept) return;
    while (list.childElementCount > kept) list.firstElementChild.remove();
    const first = list.querySelector('[data-sequence]');
    if (!first) return;
    earlier.hidden = false;
    earlier.firstElementChild.href = `${earlier.dataset.path}before=${first.dataset.sequence}#end`;
  };
  // Keeps a form that someone is filling in, unless what they may do has changed.
  const replaceForms = (manage, composer) => {
    const fold = managing.querySelector('details');
    if (!fold?.open) managing.innerHTML = manage;
    const old = document.getElementById('composer');
    const template = document.createElement('template');
    template.innerHTML = composer;
    const fresh = template.content.firstElementChild;
    if (old.dataset.kind === fresh.dataset.kind) return;
    // A note such as "The session has ended." no longer holds.
    document.querySelector('.done')?.remove();
    const typed = old.querySelector('textarea')?.value;
    const text = fresh.querySelector('textarea');
    if (typed && text) text.value = typed;
    old.replaceWith(fresh);
    dispatchEvent(new Event('asp-composer'));
  };
  let lastHead, lastReceipt, lastCsrf;
  const showStatus = ({ head: newHead, receipt: newReceipt, csrf }) => {
    if (newHead !== lastHead) head.innerHTML = newHead;
    if (newReceipt !== lastReceipt) receipt.innerHTML = newReceipt;
    // Someone may have signed in again in another tab.
    if (csrf !== lastCsrf) for (const field of document.querySelectorAll('input[name="csrf"]')) field.value = csrf;
    lastHead = newHead;
    lastReceipt = newReceipt;
    lastCsrf = csrf;
  };
  let waiting = [],
    shownAt = -TOGETHER,
    showing;
  const showWaiting = () => {
    clearTimeout(showing);
    showing = undefined;
    const found = waiting;
    if (found.length === 0) return;
    waiting = [];
    // The event of a scroll may come only after these entries, which move the end.
    if (scrollY !== lastY) look();
    for (const { entries, hasMore, manage, composer, ...status } of found) {
      if (entries?.length > 0) document.getElementById('nothing')?.remove();
      if (entries) isBehind = addAll(entries) || hasMore;
      showStatus(status);
      if (composer) replaceForms(manage, composer);
    }
    if (follows) keepLatest(KEPT);
    keepUp();
    showUnseen();
    shownAt = performance.now();
    // The stream does not send again what this page has not shown.
    if (source && isFull() && isBehind) open();
  };
  const show = (found) => {
    waiting.push(found);
    showing ??= setTimeout(showWaiting, Math.max(0, shownAt + TOGETHER - performance.now()));
  };

  const close = () => {
    showWaiting();
    turn += 1;
    clearTimeout(timer);
    if (source) source.close();
    if (asked) asked.abort();
    if (leave) leave();
    source = asked = leave = undefined;
    isStreaming = false;
  };
  const address = () => {
    const own = receipt.firstElementChild?.dataset.own;
    return `${log.dataset.live}after=${after}${own ? `&own=${own}` : ''}`;
  };
  // Someone may sign in again in another tab.
  const finish = (why) => {
    isSignedOut = why === 'signed-out';
    isOver = !isSignedOut;
    close();
    say(why);
    if (isSignedOut && !document.hidden) timer = setTimeout(open, SIGNED_OUT_WAIT);
  };
  // An EventSource does not see why it was refused. A plain request does, and it also gets the news.
  const poll = async () => {
    const mine = turn;
    asked = new AbortController();
    const patience = setTimeout(() => asked?.abort(), PATIENCE);
    const headers = { accept: 'application/json' };
    const answer = await fetch(address(), { headers, signal: asked.signal }).catch(() => undefined);
    const found = answer?.ok ? await answer.json().catch(() => undefined) : undefined;
    clearTimeout(patience);
    if (mine !== turn) return;
    asked = undefined;
    if (answer && WHY[answer.status]) return finish(WHY[answer.status]);
    const goOn = leave ? poll : open;
    if (found) {
      wait = FIRST_WAIT;
      show(found);
      showWaiting();
      if (isSignedOut) {
        isSignedOut = false;
        refusals = 0;
        return open();
      }
      if (isStreaming) say('on');
      else if (!isSharing) say('slow');
      // The stream opens while the first answer is on its way.
      isSharing = false;
      const pause = isStreaming ? POLL_BESIDE_STREAM : POLL;
      // News that this page cannot show, such as events its agent may not see, is requested only once.
      const isMore = (found.hasMore || isNews) && !isFull();
      isNews = false;
      timer = setTimeout(goOn, isMore ? 0 : pause);
      return;
    }
    say('off');
    timer = setTimeout(goOn, wait);
    wait = Math.min(wait * 2, LONGEST_WAIT);
  };
  const ask = () => {
    if (asked) {
      isNews = true;
      return;
    }
    clearTimeout(timer);
    poll();
  };
  const shareStream = () => {
    isSharing = true;
    const session = /sess_\w+/.exec(log.dataset.live)[0];
    let moves = '0';
    leave = window.follow(session, {
      news: ([last, newMoves]) => {
        const isNew = Number(last) > after || newMoves !== moves;
        moves = newMoves;
        if (isNew && !isFull()) ask();
      },
      state: (isOpen) => {
        isStreaming = isOpen;
        ask();
      },
    });
    ask();
  };
  const stream = () => {
    source = new EventSource(address());
    source.onopen = () => {
      wait = FIRST_WAIT;
      say('on');
    };
    source.addEventListener('entries', (event) => show(JSON.parse(event.data)));
    source.addEventListener('status', (event) => show(JSON.parse(event.data)));
    source.addEventListener('end', (event) => finish(event.data));
    source.onerror = () => {
      if (source.readyState !== EventSource.CLOSED) return say('off');
      close();
      refusals = POLLS_AFTER_REFUSAL;
      poll();
    };
  };
  const open = () => {
    close();
    if (isOver || document.hidden) return;
    if (isSignedOut) return poll();
    if (window.follow) return shareStream();
    if (refusals === 0 && !isFull()) return stream();
    refusals = Math.max(0, refusals - 1);
    poll();
  };
  document.addEventListener('visibilitychange', () => (document.hidden ? close() : open()));
  addEventListener('focus', () => isSignedOut && open());
  addEventListener('pagehide', close);
  addEventListener('pageshow', (event) => event.persisted && open());
  say('off');
  if (follows) {
    // An entry that the browser has not laid out has a guessed height, and the page would move when it does.
    for (const entry of [...list.children].slice(-OPENED_AT)) entry.classList.add('laid-out');
    follow();
    addEventListener('DOMContentLoaded', keepUp);
  }
  open();
})();
