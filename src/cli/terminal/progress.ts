import type { Clock } from '../../kit/clock.js';
import { capitalized } from '../../kit/format.js';
import type { Output } from './output.js';
import type { Streams } from './streams.js';

/** When a spinner appears, and whether it may. */
export interface ProgressSettings {
  readonly clock: Clock;
  readonly isAllowed: boolean;
}

const PATIENCE_MS = 400;
/** A wait that takes longer is announced if no spinner can appear. */
const NOTED_MS = 1000;

/** The parts of a command's context that a spinner depends on. */
interface ProgressContext {
  readonly clock: Clock;
  readonly streams: Pick<Streams, 'stderr'>;
  readonly output: Pick<Output, 'format' | 'note'>;
  readonly globals: { readonly isQuiet: boolean; readonly isAccessible: boolean };
}

/**
 * Shows a spinner while `work` is running, if a person would see it. Otherwise, unless JSON is requested or `isTold`,
 * prints once what takes so long.
 */
export async function showProgress<Value>(
  context: ProgressContext,
  text: string,
  work: Promise<Value>,
  { isTold: isReported = false } = {},
): Promise<Value> {
  const { clock, streams, globals, output } = context;
  const isAllowed = streams.stderr.isTerminal && !globals.isQuiet && !globals.isAccessible;
  const isSilent = isAllowed || isReported || output.format !== 'human';
  const say = (): void => void output.note(`${capitalized(text)}.`);
  const cancel = isSilent ? undefined : clock.schedule(NOTED_MS, say, true);
  try {
    return await withProgress({ clock, isAllowed }, text, work);
  } finally {
    cancel?.();
  }
}

/** Shows a spinner on stderr while `work` is running, but not before 400 ms have passed. */
export async function withProgress<Value>(
  { clock, isAllowed }: ProgressSettings,
  text: string,
  work: Promise<Value>,
): Promise<Value> {
  if (!isAllowed) return work;
  let isDone = false;
  let spinner: { stop(): unknown } | undefined;
  const cancel = clock.schedule(PATIENCE_MS, () => {
    void import('ora').then(({ default: ora }) => {
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

const USUAL = { columns: 80, rows: 24 };

/**
 * A pseudo-terminal may not know its size and report 0, at first or later: then a question would have one letter per
 * line, and a spinner would clear lines forever.
 */
export function nameUnknownSize(): void {
  for (const stream of [process.stdout, process.stderr]) {
    const name = (): void => {
      for (const side of ['columns', 'rows'] as const) if (stream[side] === 0) stream[side] = USUAL[side];
    };
    name();
    stream.on('resize', name);
  }
}
