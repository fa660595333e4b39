import type { Context } from '../../context/context.js';
import { UsageError } from '../../terminal/cli-error.js';
import { readHandles } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { type RunOptions, serveAgent } from './serve-agent.js';

const CONCURRENCY_DEFAULT = 4;
const CONCURRENCY_MAX = 256;
const COMMAND_TIMEOUT_DEFAULT_MS = 10 * 60_000;
const TRIES_MAX = 20;

export function parse(words: Words): RunOptions {
  const command = words.text('exec') ?? '';
  if (command.trim() === '')
    throw new UsageError('There is no command to run.', {
      why: 'it is given with --exec.',
      next: ['asp', 'run', '--help'],
    });
  return {
    rules: {
      command,
      tries: words.count('tries', { min: 1, max: TRIES_MAX }) ?? 1,
      timeoutMs: words.duration('command-timeout') ?? COMMAND_TIMEOUT_DEFAULT_MS,
    },
    from: readHandles(words.texts('from')),
    joins: !words.flag('no-join'),
    ends: words.flag('end'),
    count: words.count('count', { min: 1 }),
    concurrency: words.count('concurrency', { min: 1, max: CONCURRENCY_MAX }) ?? CONCURRENCY_DEFAULT,
    cursorFile: words.text('cursor-file'),
  };
}

export function run(context: Context, options: RunOptions): Promise<void> {
  return serveAgent(context, options);
}
