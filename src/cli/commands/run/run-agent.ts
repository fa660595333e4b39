import { resolve } from 'node:path';
import type { Advice, Responder } from '../../../agent/answer.js';
import { waitForService } from '../../../agent/persist.js';
import { lockProgress, openProgress, type ProgressFile } from '../../../agent/progress-file.js';
import { createRelations, type FindRelation } from '../../../agent/relation.js';
import { type OpenedAgent, type Stops, serveAgent } from '../../../agent/serve-agent.js';
import { serviceTime } from '../../../agent/start-points.js';
import type { AgentOptions } from '../../../agent/take-events.js';
import type { Client } from '../../../client/client.js';
import { formatQuantity } from '../../../kit/format.js';
import type { Context } from '../../context/context.js';
import { besideProgress, progressPath } from '../../context/progress-path.js';
import { CliError, usageError } from '../../errors.js';
import { openReadyFile, readyText } from '../../ready-file.js';
import { durationText } from '../../values.js';
import { openHopsFile } from '../send/hops.js';
import { connectSystemd } from '../serve/systemd.js';
import { type CommandGuard, startCommandGuard, waitForGuard } from './command-guard.js';
import type { JsonExchange, JsonSources } from './reply-json.js';
import type { RunOptions } from './run.js';
import { agentEnvironment, respondByCommand, withRights } from './run-command.js';

const ADVICE: Advice = {
  admit: 'Add it with asp allowlist add, or answer everyone with --from anyone.',
  since: 'To also answer earlier messages, add --since 1h.',
  unreported: (limit) => `--${limit.replace('_', '-')} has no effect: the agent program does not report usage.`,
  limits: {
    max_replies: 'A message from an agent that --human names resets the count; --max-replies raises the limit.',
    max_replies_per_hour: 'Wait, or raise --max-replies-per-hour.',
    max_hops: 'A new message from a person starts a new chain; --max-hops raises the limit.',
    max_tokens: 'Start asp run again, or raise --max-tokens.',
    max_cost: 'Start asp run again, or raise --max-cost.',
    loop_guard: 'The service waits for a message from a person: in the dashboard, or with asp chat.',
    repeated: 'The reply was the same three times in a row. A new message from a person resets this.',
  },
};

/** Runs a command for each message until the agent is stopped. */
export async function runAgent(context: Context, options: RunOptions): Promise<void> {
  const end = await answerUntilStopped(context, options, async (agent, answer) => {
    const { client, me, path, soft, hard } = agent;
    const guard = startCommandGuard(context);
    let responder: Responder | undefined;
    let guarded: ProgressFile | undefined;
    let hasEndedWell = false;
    try {
      const progress = await startProgress(context, agent, path, options.sinceMs);
      if (progress.guard !== undefined) await waitForGuard(context, progress.guard, soft);
      progress.guardBy(guard.identity);
      guarded = progress;
      await progress.written();
      const { rules } = options;
      if (rules.protocol === 'acp' && rules.ask?.handle === me)
        throw usageError(`${me} cannot ask itself for permission.`, { why: '--ask names another agent.' });
      const findRelation = createRelations({ context, client, me, signal: hard.signal });
      const environment = await agentEnvironment(context, me);
      const parts = { context, me, rules, guard, environment, findRelation };
      responder = await startResponder({ ...parts, progressPath: path, signal: soft });
      const onRecord: OpenedAgent['onRecord'] = (record) => context.output.record(record);
      const { passesOver } = responder;
      const respond = sayingWhatFinishes(context, options.graceMs, soft, responder.respond);
      await answer({ progress, progressPath: path, respond, passesOver, onRecord });
      hasEndedWell = true;
    } finally {
      await responder?.close();
      // The next run waits for a guard that has commands to end.
      if (guard.close()) guarded?.guardBy(undefined);
      // A failure to write now must not hide the reason for the end.
      await guarded?.written().catch((error: unknown) => {
        if (hasEndedWell) throw error;
      });
    }
  });
  if (end === 'timeout') throw new CliError('ASP_TIMEOUT', { message: 'Timed out.', isRetryable: true });
}

/** Says that the end waits for work in progress, if there is any when the run is stopped. */
function sayingWhatFinishes(
  { output }: Context,
  graceMs: number,
  soft: AbortSignal,
  respond: Responder['respond'],
): Responder['respond'] {
  let inProgress = 0;
  const say = (): void => {
    const wait = `Waiting up to ${durationText(graceMs)} for ${formatQuantity(inProgress, 'message')} in progress.`;
    if (inProgress > 0) void output.note(`${wait} A second Ctrl-C ends the run now.`).catch(() => {});
  };
  soft.addEventListener('abort', say, { once: true });
  return async (...given) => {
    inProgress += 1;
    try {
      return await respond(...given);
    } finally {
      inProgress -= 1;
    }
  };
}

/** An agent that answers alone: nothing else on this machine does with the same progress file. */
export interface AgentSeat extends Stops {
  readonly client: Client;
  readonly me: string;
  /** Where its progress is kept, if it is. */
  readonly path: string;
}

/** The source of the replies, and the listener for them. */
type Answerer = Pick<OpenedAgent, 'progress' | 'progressPath' | 'respond' | 'passesOver' | 'accepts' | 'onRecord'>;

/** Answers as the acting agent until the signal, the deadline or the count; says so, on stderr and by the ready file. */
export async function answerUntilStopped(
  context: Context,
  options: AgentOptions & { readonly readyFile: string | undefined; readonly cursorFile?: string | undefined },
  open: (agent: AgentSeat, answer: (by: Answerer) => Promise<void>) => Promise<void>,
): Promise<'stopped' | 'timeout'> {
  const { clock, globals } = context;
  const time = new AbortController();
  const cancel =
    globals.timeoutMs === undefined ? undefined : clock.schedule(globals.timeoutMs, () => time.abort(), true);
  const signal = AbortSignal.any([context.signal, time.signal]);
  try {
    await serveAgent(context, ADVICE, options, signal, async (stops, answerAll) => {
      const { soft } = stops;
      const readyFile = await openReadyFile(options.readyFile);
      const client = await waitForService(context, soft, () => context.client());
      const me = await waitForService(context, soft, () => context.actingHandle());
      const path = options.cursorFile ?? (await progressPath(context, me));
      const release = await lockProgress(context, me, resolve(context.machine.workingDirectory, path));
      if (release === undefined)
        throw new CliError('ASP_ALREADY_RUNNING', {
          message: `Another asp run or asp mock already answers as ${me}.`,
          why:
            'cursorFile' in options
              ? `both would store their progress in ${path}. To run a second one with a different command, use --cursor-file.`
              : 'both would answer each message. Stop it first.',
        });
      const systemd = connectSystemd(context);
      const onReady = async (): Promise<void> => {
        await readyFile.write(readyText(context));
        systemd.ready();
        const whom =
          options.from.length > 0 ? '' : ' Answering only agents of the same owner and those on its allowlist.';
        await context.output.note(`Answering as ${me}.${whom}`);
      };
      const findRelation = createRelations({ context, client, me, signal: soft });
      try {
        await open({ ...stops, client, me, path }, (by) => answerAll({ ...by, client, me, findRelation, onReady }));
      } finally {
        await systemd.stopping();
        await readyFile.remove();
        release();
      }
    });
  } finally {
    cancel?.();
  }
  return time.signal.aborted ? 'timeout' : 'stopped';
}

/** The progress of an earlier run; without one, messages since then are answered, or from now on. */
export function startProgress(
  context: Context,
  { client, soft }: AgentSeat,
  path: string | undefined,
  sinceMs: number | undefined,
): Promise<ProgressFile> {
  const now = (): Promise<number> => serviceTime(client, context.clock.now(), soft);
  return openProgress(path, async () => sinceMs ?? waitForService(context, soft, now));
}

interface ResponderParts {
  readonly context: Context;
  readonly me: string;
  readonly rules: RunOptions['rules'];
  readonly guard: CommandGuard;
  readonly environment: Readonly<Record<string, string>>;
  readonly findRelation: FindRelation;
  /** Undefined: from the service. */
  readonly sources?: JsonSources | undefined;
  readonly progressPath: string | undefined;
  readonly signal: AbortSignal;
}

/** The source of the replies: a command that runs for each message, or a program that keeps running. */
export async function startResponder({ rules, ...parts }: ResponderParts): Promise<Responder> {
  const { context, me, guard, environment, findRelation, progressPath } = parts;
  // The schemas of messages cost milliseconds, and most commands print text.
  const exchange = async (): Promise<JsonExchange> => {
    const { createExchange, serviceSources } = await import('./reply-json.js');
    return createExchange(parts.sources ?? serviceSources(context, me, findRelation));
  };
  if (rules.protocol === 'exec') {
    const isPlain = rules.repliesAs === 'text' && rules.recent === 0;
    const command = respondByCommand(
      context,
      rules,
      guard,
      environment,
      findRelation,
      isPlain ? undefined : await exchange(),
    );
    return withRights(context, rules.allow, findRelation, command);
  }
  // The program may run its commands elsewhere.
  const { workingDirectory } = context.machine;
  const hops = openHopsFile(progressPath && resolve(workingDirectory, besideProgress(progressPath, '.hops')));
  if (rules.protocol === 'lines') {
    const { startLineHandlers } = await import('./line-handlers.js');
    const handlers = await startLineHandlers({ context, rules, guard, environment, hops, exchange: await exchange() });
    return withRights(context, rules.allow, findRelation, handlers);
  }
  const { startAcpAgent } = await import('./acp-agent.js');
  return startAcpAgent({ ...parts, rules, hops });
}
