// Shares one stream among all pages of a browser, because browsers open only six connections to a host over HTTP/1.1.
// The page that holds a lock has the stream and passes on its messages. When that page closes, another takes over. The
// stream only says what has changed, and each page fetches the changes from its own position, so a handover neither
// loses nor repeats anything. window.follow(key, { news, state }) returns a function that stops it, or undefined if
// this browser can't share and each page needs its own stream.
(() => {
  'use strict';
  const LOCK = 'asp-live',
    TOGETHER = 50,
    RETRY = 10000,
    ALONE = 'needs';
  if (!navigator.locks || !window.BroadcastChannel || !window.EventSource) return;
  const own = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16)).join('');
  const nameOf = (page) => `${LOCK} ${page}`;
  const followers = new Map();
  const keys = () => [...followers.keys()];
  let channel,
    isOpen = false,
    leave,
    leaveLine;

  const hear = ({ kind, key, data }) => {
    if (kind === 'news') followers.get(key)?.news(data);
    else if (isOpen !== data) {
      isOpen = data;
      for (const { state } of followers.values()) state?.(isOpen);
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
    const wanted = [...new Set([...pages.values(), keys()].flat())].sort();
    const next = `/dashboard/live?${wanted.map((key) => `of=${key}`).join('&')}`;
    if (next === address) return;
    endStream();
    if (wanted.length === 0) return;
    address = next;
    const stream = new EventSource(next);
    source = stream;
    stream.onopen = () => say({ kind: 'state', data: true });
    stream.addEventListener('changed', ({ data }) => passOn('list', data));
    stream.addEventListener('needs', ({ data }) => passOn(ALONE, data));
    stream.addEventListener('session', ({ data }) => passOn(...data.split(' ')));
    stream.onerror = () => {
      say({ kind: 'state', data: false });
      if (stream.readyState !== EventSource.CLOSED) return;
      address = undefined;
      timer = setTimeout(begin, RETRY);
    };
    stream.addEventListener('end', () => {
      stream.close();
      address = undefined;
      say({ kind: 'state', data: false });
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
    channel.postMessage({ kind: 'state', data: isOpen });
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
    const present = () => new Promise((done) => signal.addEventListener('abort', done));
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
    isOpen = false;
  };
  window.follow = (key, follower) => {
    followers.set(key, follower);
    if (!channel) join();
    announce();
    if (leave) beginSoon();
    if (isOpen) follower.state?.(true);
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
