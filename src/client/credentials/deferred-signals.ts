const DEFERRED = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Runs `work` to its end although the process is told to stop, and lets the signals act afterwards: between the moment a
 * refresh token is spent and the moment its successor is stored, dying loses the login.
 */
export async function withDeferredSignals<Result>(work: () => Promise<Result>): Promise<Result> {
  const received = new Set<NodeJS.Signals>();
  const note = (signal: NodeJS.Signals): void => void received.add(signal);
  const suspended = DEFERRED.map((signal) => ({ signal, listeners: process.listeners(signal) }));
  for (const { signal } of suspended) {
    process.removeAllListeners(signal);
    process.on(signal, note);
  }
  try {
    return await work();
  } finally {
    for (const { signal, listeners } of suspended) {
      for (const listener of listeners) process.on(signal, listener);
      process.removeListener(signal, note);
    }
    for (const signal of received) process.kill(process.pid, signal);
  }
}
