import { resolve } from 'node:path';
import type { Advice, Responder } from '../../../agent/answer.js';
import { lockProgress } from '../../../agent/lock-progress.js';
import { waitForService } from '../../../agent/persist.js';
import { openProgress } from '../../../agent/progress-file.js';
import { createRelations, type FindRelation } from '../../../agent/relation.js';
import { type AnswerAll, type Stops, serveAgent } from '../../../agent/serve-agent.js';
import { serviceTime } from '../../../agent/start-points.js';
import type { Context } from '../../context/context.js';
import { progressPath } from '../../context/progress-path.js';
import { CliError, usageError } from '../../errors.js';
import { openReadyFile, readyText } from '../../ready-file.js';
import type { RunOptions } from './run.js';
import { type CommandGuard, respondByCommand, startCommandGuard, waitForGuard } from './run-command.js';

const ADVICE: Advice = {
  admit: 'Add it with asp allowlist add, or answer everyone with --from anyone.',
  since: 'To also answer earlier messages, add --since 1h.',
  unreported: (limit) => `--${limit.replace('_', '-')} has no effect: the agent program does not report usage.`,
  limits: {
    max_replies: 'A message from an agent in --human resets the count; --max-replies raises the limit.',
    max_replies_per_hour: 'Wait, or raise --max-replies-per-hour.',
    max_hops: 'A new message from a person starts a new chain; --max-hops raises the limit.',
    max_tokens: 'Start asp run again, or raise --max-tokens.',
    max_cost: 'Start asp run again, or raise --max-cost.',
    repeated: 'The reply was the same three times in a row. A new message from a person resets this.',
  },
};

/** Runs a command for each message until the agent is stopped. */
export async function runAgent(context: Context, options: RunOptions): Promise<void> {
  const { clock, globals } = context;
  const time = new AbortController();
  const cancel =
    globals.timeoutMs === undefined ? undefined : clock.schedule(globals.timeoutMs, () => time.abort(), true);
  const signal = AbortSignal.any([context.signal, time.signal]);
  try {
    await serveAgent(context, ADVICE, options, signal, (stops, answerAll) =>
      followAndAnswer(context, options, stops, answerAll),
    );
  } finally {
    cancel?.();
  }
  if (time.signal.aborted) throw new CliError('ASP_TIMEOUT', { message: 'Timed out.', isRetryable: true });
}

async function followAndAnswer(
  context: Context,
  options: RunOptions,
  { soft, hard }: Stops,
  answerAll: AnswerAll,
): Promise<void> {
  const readyFile = await openReadyFile(options.readyFile);
  const client = await waitForService(context, soft, () => context.client());
  const me = await waitForService(context, soft, () => context.actingHandle());
  const path = options.cursorFile ?? (await progressPath(context, me));
  const release = await lockProgress(context, me, resolve(context.machine.workingDirectory, path));
  if (release === undefined)
    throw new CliError('ASP_ALREADY_RUNNING', {
      message: `Another asp run already answers as ${me}.`,
      why: `both would store their progress in ${path}. To run a second one with a different command, use --cursor-file.`,
    });
  const guard = startCommandGuard(context);
  let responder: Responder | undefined;
  try {
    const now = (): Promise<number> => serviceTime(client, context.clock.now(), soft);
    const progress = await openProgress(path, async () => options.sinceMs ?? waitForService(context, soft, now));
    if (progress.guard !== undefined) await waitForGuard(context, progress.guard, soft);
    progress.guardBy(guard.identity);
    await progress.written();
    const { rules } = options;
    if (rules.protocol === 'acp' && rules.ask?.handle === me)
      throw usageError(`${me} cannot ask itself for permission.`, { why: '--ask names another agent.' });
    const relationsUntil = (signal: AbortSignal): FindRelation => createRelations({ context, client, me, signal });
    const findRelation = relationsUntil(hard.signal);
    responder = await startResponder({ context, me, rules, guard, findRelation, progressPath: path, signal: soft });
    await answerAll({
      client,
      me,
      progress,
      progressPath: path,
      respond: responder.respond,
      passesOver: responder.passesOver,
      findRelation: relationsUntil(soft),
      async onReady() {
        await readyFile.write(readyText(context));
        const whom = options.from.length > 0 ? '' : ' Answering only agents of the same owner and on its allowlist.';
        await context.output.note(`Answering as ${me}.${whom}`);
      },
      onRecord: (record) => context.output.record(record),
    });
  } finally {
    await responder?.close();
    guard.close();
    await readyFile.remove();
    release();
  }
}

interface ResponderParts {
  readonly context: Context;
  readonly me: string;
  readonly rules: RunOptions['rules'];
  readonly guard: CommandGuard;
  readonly findRelation: FindRelation;
  readonly progressPath: string;
  readonly signal: AbortSignal;
}

/** What makes the replies: a command that runs for each message, or an agent program that stays. */
async function startResponder({ rules, ...parts }: ResponderParts): Promise<Responder> {
  if (rules.protocol === 'exec') return respondByCommand(parts.context, rules, parts.guard, parts.me);
  const { startAcpAgent } = await import('./acp-agent.js');
  return startAcpAgent({ ...parts, rules });
}
