// Shares one stream among all pages of a browser, because browsers open only six connections to a host over HTTP/1.1.
// The page that holds a lock has the stream and passes on its messages. When that page closes, another takes over. The
// stream only says what has changed, and each page fetches the changes from its own position, so a handover neither
// loses nor repeats anything. It follows at most 20 sessions, and the pages of others learn that it does not follow
// them. window.follow(key, { news, state }) returns a function that stops it, or undefined if this browser can't share
// and each page needs its own stream.
(() => {
  'use strict';
  const LOCK = 'asp-live',
    TOGETHER = 50,
    RETRY = 10000,
    ALONE = 'needs',
    SESSIONS_MAX = 20;
  if (!navigator.locks || !window.BroadcastChannel || !window.EventSource) return;
  const own = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16)).join('');
  const nameOf = (page) => `${LOCK} ${page}`;
  const followers = new Map();
  const keys = () => [...followers.keys()];
  let channel,
    open = [],
    leave,
    leaveLine;

  const hear = ({ kind, key, data }) => {
    if (kind === 'news') followers.get(key)?.news(data);
    else {
      const before = open;
      open = data;
      for (const [one, { state }] of followers)
        if (before.includes(one) !== open.includes(one)) state?.(open.includes(one));
    }
  };
  const say = (message) => {
    hear(message);
    if (message.key !== ALONE) channel?.postMessage(message);
  };

  // Only the page that holds the lock uses the rest of these.
  const pages = new Map();
  let source, address, timer, pausing;
  const latest = new Map();
  const endStream = () => {
    clearTimeout(timer);
    source?.close();
    source = address = undefined;
    latest.clear();
  };
  const passOn = (key, data) => {
    latest.set(key, data);
    say({ kind: 'news', key, data });
  };
  const begin = async () => {
    pausing = undefined;
    // A page that was killed could not report its end.
    const { held } = await navigator.locks.query();
    if (!leave) return;
    const present = new Set(held.map(({ name }) => name));
    for (const page of pages.keys()) if (!present.has(nameOf(page))) pages.delete(page);
    const all = [...new Set([...pages.values(), keys()].flat())].sort();
    const sessions = all.filter((key) => key.startsWith('sess_')).slice(0, SESSIONS_MAX);
    const wanted = [...all.filter((key) => !key.startsWith('sess_')), ...sessions];
    const next = `/dashboard/live?${wanted.map((key) => `of=${key}`).join('&')}`;
    if (next === address) return;
    endStream();
    if (wanted.length === 0) return;
    address = next;
    const stream = new EventSource(next);
    source = stream;
    stream.onopen = () => say({ kind: 'state', data: wanted });
    stream.addEventListener('changed', ({ data }) => passOn('list', data));
    stream.addEventListener('needs', ({ data }) => passOn(ALONE, data));
    stream.addEventListener('session', ({ data }) => {
      const [key, ...news] = data.split(' ');
      passOn(key, news);
    });
    stream.onerror = () => {
      say({ kind: 'state', data: [] });
      if (stream.readyState !== EventSource.CLOSED) return;
      address = undefined;
      timer = setTimeout(begin, RETRY);
    };
    stream.addEventListener('end', () => {
      stream.close();
      address = undefined;
      say({ kind: 'state', data: [] });
    });
  };
  const beginSoon = () => {
    pausing ??= setTimeout(begin, TOGETHER);
  };

  const onMessage = ({ data: message }) => {
    if (message.kind === 'who') return announce();
    if (message.kind !== 'wants') return hear(message);
    if (!leave) return;
    if (message.keys.length > 0) pages.set(message.page, message.keys);
    else pages.delete(message.page);
    channel.postMessage({ kind: 'state', data: open });
    for (const key of message.keys)
      if (latest.has(key)) channel.postMessage({ kind: 'news', key, data: latest.get(key) });
    beginSoon();
  };
  const announce = () => channel?.postMessage({ kind: 'wants', page: own, keys: keys() });
  const lead = () =>
    new Promise((done) => {
      if (!channel) return done();
      leave = done;
      channel.postMessage({ kind: 'who' });
      beginSoon();
    });
  const join = () => {
    channel = new BroadcastChannel(LOCK);
    channel.onmessage = onMessage;
    const line = new AbortController();
    leaveLine = () => line.abort();
    const { signal } = line;
    // The page that has the stream forgets those that do not hold their lock, which may come later than what they say.
    const present = () => {
      announce();
      return new Promise((done) => signal.addEventListener('abort', done));
    };
    navigator.locks.request(nameOf(own), { mode: 'shared', signal }, present).catch(() => {});
    navigator.locks.request(LOCK, { signal }, () => (signal.aborted ? undefined : lead())).catch(() => {});
  };
  const part = () => {
    clearTimeout(pausing);
    pausing = undefined;
    endStream();
    pages.clear();
    announce();
    leave?.();
    leaveLine();
    channel.close();
    channel = leave = leaveLine = undefined;
    open = [];
  };
  window.follow = (key, follower) => {
    followers.set(key, follower);
    if (!channel) join();
    announce();
    if (leave) beginSoon();
    if (open.includes(key)) follower.state?.(true);
    if (latest.has(key)) follower.news(latest.get(key));
    return () => {
      if (followers.get(key) !== follower) return;
      followers.delete(key);
      if (followers.size === 0) return part();
      announce();
      if (leave) beginSoon();
    };
  };
})();
