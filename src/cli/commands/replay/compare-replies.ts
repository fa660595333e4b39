import { isDeepStrictEqual } from 'node:util';

import type { Produced, Responder } from '../../../agent/answer.js';
import { createRelations, type FindRelation } from '../../../agent/relation.js';
import { bounded, toPattern } from '../../../kit/pattern.js';
import { sanitizeLine } from '../../../kit/sanitize.js';
import { isFailureNotice, textOfMessage } from '../../../wire/message.js';
import type { Message } from '../../../wire/schemas/message.js';
import type { Context } from '../../context/context.js';
import { CliError, usageError } from '../../errors.js';
import { formatDiff } from '../../terminal/diff.js';
import { shorten } from '../../terminal/output.js';
import type { Style } from '../../terminal/style.js';
import { messageText } from '../message/message-text.js';
import { agentEnvironment, startCommandGuard } from '../run/run-command.js';
import { startResponder } from '../run/serve-agent.js';
import { listTurns, nothingChosen, openRecording, type Recording, type Turn } from './recording.js';
import type { ReplayOptions } from './replay.js';

const SHOWN_WIDTH = 60;

type Content = Message['content'];

/** What an agent answered to a message. */
interface Answer {
  readonly outcome: 'replied' | 'silent' | 'failed';
  readonly messages: readonly Content[];
  /** Why the command failed. */
  readonly why: string | null;
}

/** Whether the command answers a message as it was answered. */
interface Comparison {
  readonly session_id: string;
  readonly event_id: string;
  readonly message_id: string;
  readonly sequence: number;
  readonly from: string;
  readonly content: Content;
  readonly outcome: 'same' | 'different';
  readonly recorded: Answer;
  readonly replayed: Answer;
  readonly exit_code: number | null;
  readonly tries: number;
  readonly duration_ms: number;
}

/** Only a model sees how a sender is related to the agent, and only the service knows it. */
async function findRelations(
  context: Context,
  { rules }: ReplayOptions,
  { me, isFile }: Recording,
): Promise<FindRelation> {
  if (isFile || rules.protocol === 'exec') return async () => 'anyone';
  return createRelations({ context, client: await context.client(), me, signal: context.signal });
}

/** Runs the command for each recorded message, prints how its answers differ, and sends nothing. */
export async function compareReplies(context: Context, options: ReplayOptions): Promise<void> {
  const { clock, output, signal } = context;
  const patterns = options.ignored.map(readPattern);
  const recording = await openRecording(context, options.recording);
  const { me } = recording;
  const { from, rules } = options;
  const isWanted = (handle: string): boolean => from === 'anyone' || from.length === 0 || from.includes(handle);
  const environment = (await agentEnvironment(context, me).catch(nothingChosen)) ?? { ASP_AGENT: me };
  const guard = startCommandGuard(context);
  const counts = { same: 0, different: 0 };
  let responder: Responder | undefined;
  try {
    responder = await startResponder({
      ...{ context, me, rules, guard, signal, progressPath: undefined },
      environment: { ...environment, ASP_REPLAY: '1' },
      findRelation: await findRelations(context, options, recording),
    });
    const { respond } = responder;
    for await (const turn of listTurns(recording, isWanted)) {
      const beganAt = clock.monotonic();
      const produced = await respond(turn.incoming, signal, () => {});
      const durationMs = Math.round(clock.monotonic() - beganAt);
      const comparison = compare(turn, produced, patterns, durationMs);
      counts[comparison.outcome] += 1;
      await output.document(comparison, describe);
    }
  } finally {
    await responder?.close();
    guard.close();
  }
  const total = counts.same + counts.different;
  if (total === 0) throw usageError(`There is no message for ${me} in this recording.`);
  if (counts.different > 0)
    throw new CliError('ASP_NOT_AS_EXPECTED', {
      message: `${counts.different} of ${total} replies ${counts.different === 1 ? 'differs' : 'differ'} from the recording.`,
    });
  await output.note(`${total === 1 ? 'The reply is' : `All ${total} replies are`} the same. Nothing was sent.`);
}

function readPattern(source: string): RegExp {
  const pattern = source === '' ? undefined : toPattern(source, 'g');
  if (pattern === undefined) throw usageError(`--ignore '${source}' is not a regular expression.`);
  return pattern;
}

function compare(
  { incoming, replies }: Turn,
  produced: Produced,
  patterns: readonly RegExp[],
  durationMs: number,
): Comparison {
  const recorded = recordedAnswer(replies);
  const replayed = producedAnswer(produced);
  const isSame =
    recorded.outcome === replayed.outcome &&
    (recorded.outcome === 'failed' ||
      isDeepStrictEqual(comparable(recorded, patterns), comparable(replayed, patterns)));
  const { session_id, event_id, payload } = incoming;
  const { id: message_id, sequence, sender: from, content } = payload;
  return {
    ...{ session_id, event_id, message_id, sequence, from, content },
    outcome: isSame ? 'same' : 'different',
    ...{ recorded, replayed, exit_code: produced.exitCode, tries: produced.tries, duration_ms: durationMs },
  };
}

function recordedAnswer(replies: readonly Message[]): Answer {
  const messages = replies.map(({ content }) => content);
  const outcome = replies.some(isFailureNotice) ? 'failed' : messages.length > 0 ? 'replied' : 'silent';
  return { outcome, messages, why: null };
}

function producedAnswer(produced: Produced): Answer {
  if (produced.kind === 'failed') return { outcome: 'failed', messages: [], why: produced.why };
  const messages = produced.text === '' ? [] : [produced.content ?? produced.text];
  return { outcome: messages.length > 0 ? 'replied' : 'silent', messages, why: null };
}

/** Text without the spaces around it and without what is ignored; a single text part is its text. */
function comparable({ messages }: Answer, patterns: readonly RegExp[]): unknown {
  const plain = (text: string): string =>
    patterns.reduce((left, pattern) => bounded(() => left.replace(pattern, '')) ?? left, text).trim();
  return messages.map((content) => {
    const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
    return parts.map((part) =>
      part.type === 'text' && typeof part['text'] === 'string' ? { ...part, text: plain(part['text']) } : part,
    );
  });
}

function describe({ sequence, from, content, outcome, recorded, replayed }: Comparison, style: Style): string {
  const said = shorten(sanitizeLine(textOfMessage({ content })), SHOWN_WIDTH);
  const verdict = outcome === 'same' ? style.green('same     ') : style.red('different');
  const head = `${verdict}  ${sequence}  ${style.cyan(from)}: ${said}`;
  if (outcome === 'same') return head;
  const diff = formatDiff(shownAnswer(recorded), shownAnswer(replayed));
  // The same words in parts of other types.
  const exact = diff === '' ? formatDiff(JSON.stringify(recorded.messages), JSON.stringify(replayed.messages)) : diff;
  const lines = exact.split('\n').map((line) => `    ${line.startsWith('-') ? style.red(line) : style.green(line)}`);
  return [head, ...lines].join('\n');
}

function shownAnswer({ outcome, messages, why }: Answer): string {
  if (outcome === 'silent') return '(no reply)';
  if (outcome === 'failed') return `(failed${why === null ? '' : `: ${why}`})`;
  return messages.map((content) => messageText({ content })).join('\n\n');
}
