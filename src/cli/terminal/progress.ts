import type { Clock } from '../../kit/clock.js';
import type { Streams } from './streams.js';

/** When a spinner shows, and whether it may. */
export interface ProgressSettings {
  readonly clock: Clock;
  readonly isAllowed: boolean;
}

const PATIENCE_MS = 400;

/** What of a command's context decides about a spinner. */
interface ProgressContext {
  readonly clock: Clock;
  readonly streams: Pick<Streams, 'stderr'>;
  readonly globals: { readonly isQuiet: boolean; readonly isAccessible: boolean };
}

/** Shows a spinner while `work` is under way, where a person would see it. */
export function showProgress<Value>(context: ProgressContext, text: string, work: Promise<Value>): Promise<Value> {
  const { clock, streams, globals } = context;
  const isAllowed = streams.stderr.isTerminal && !globals.isQuiet && !globals.isAccessible;
  return withProgress({ clock, isAllowed }, text, work);
}

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
