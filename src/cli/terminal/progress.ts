import type { Clock } from '../../kit/clock.js';

/** When a spinner shows, and whether it may. */
export interface ProgressSettings {
  readonly clock: Clock;
  readonly isAllowed: boolean;
}

const PATIENCE_MS = 400;

/** Shows a spinner on stderr while `work` is under way, but not before it has taken 400 ms. */
export async function withProgress<Value>(
  { clock, isAllowed }: ProgressSettings,
  text: string,
  work: Promise<Value>,
): Promise<Value> {
  if (!isAllowed) return work;
  let isDone = false;
  let spinner: { stop(): unknown } | undefined;
  const cancel = clock.schedule(PATIENCE_MS, () => {
    void Promise.all([import('ora'), import('./unknown-size.js')]).then(([{ default: ora }, { nameUnknownSize }]) => {
      if (isDone) return;
      nameUnknownSize();
      spinner = ora({ text, stream: process.stderr, discardStdin: false }).start();
    });
  });
  try {
    return await work;
  } finally {
    isDone = true;
    cancel();
    spinner?.stop();
  }
}
