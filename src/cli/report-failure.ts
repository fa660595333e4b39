import { textWidth } from '../kit/wrap.js';
import type { Surroundings } from './context/context.js';
import { describeFailure, type RunFacts } from './context/describe-failure.js';
import { type Globals, guessFormat } from './context/globals.js';
import { failureLine, failureText } from './terminal/failure.js';
import { isColoured, loadStyle } from './terminal/style.js';

/** Reports a failure on stderr, in the requested format, and returns its exit code. */
export async function reportFailure(
  error: unknown,
  facts: RunFacts,
  { streams, environment }: Surroundings,
  globals: Globals | undefined,
): Promise<number> {
  const failure = describeFailure(error, facts);
  const format = globals?.format ?? guessFormat(facts.argv, environment);
  if (format === 'human') {
    const style = await loadStyle(isColoured(globals?.color ?? 'auto', environment, streams.stderr.isTerminal));
    const width = streams.stderr.isTerminal ? textWidth(streams.stderr) : undefined;
    await streams.stderr.write(failureText(failure, style, width));
  } else await streams.stderr.write(failureLine(failure));
  return failure.exitCode;
}
