// A browser opens only six connections to one host over HTTP/1.1, so its tabs share few streams. Returns a function that gives
// the stream back; undefined: other tabs have them all.
window.takeStream = async () => {
  const STREAMS = 3;
  if (!navigator.locks) return () => {};
  for (let number = 0; number < STREAMS; number += 1) {
    const free = await new Promise((resolve) => {
      const hold = (lock) => (lock ? new Promise((give) => resolve(give)) : resolve(undefined));
      navigator.locks.request(`asp-live-${number}`, { ifAvailable: true }, hold).catch(() => resolve(undefined));
    });
    if (free) return free;
  }
  return undefined;
};
