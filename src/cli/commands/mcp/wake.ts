import { connect } from 'node:net';
import type { Environment } from '../../../kit/environment.js';
import { messageOf } from '../../../kit/format.js';
import { randomUuid } from '../../../kit/random.js';
import type { Context } from '../../context/context.js';
import { isReaderGone, readerGone } from '../../terminal/streams.js';
import { followSessions } from '../tail/follow.js';
import { allSessions } from '../tail/tail.js';

/** How long the coding agent may take to accept a message. */
const ACCEPT_MS = 10_000;

/** Where a coding agent takes messages from the programs that it starts. */
interface HostInbox {
  readonly path: string;
  readonly token: string;
}

/**
 * Of the coding agents, Qwen Code has such an inbox: its Cross-Session Protocol, frame version 1. A program that asp run
 * started gets its messages from there.
 */
function findHostInbox(environment: Environment): HostInbox | undefined {
  const { QWEN_CODE_MESSAGING_SOCKET: path = '', QWEN_CODE_MESSAGING_TOKEN: token = '' } = environment;
  const { ASP_HOPS_FILE: run = '' } = environment;
  return path === '' || token === '' || run !== '' ? undefined : { path, token };
}

/** Tells the coding agent that started this process about each new message, until the signal of the context. */
export async function wakeHost(context: Context, joins: boolean): Promise<void> {
  const { output, environment, random, signal } = context;
  const inbox = findHostInbox(environment);
  if (inbox === undefined)
    return output.detail('The program that started this takes no messages from it, so --wake does nothing.');
  const post = (line: string): Promise<void> => postTo(inbox, randomUuid(random), line, signal);
  try {
    await followSessions(
      { ...context, output: { ...output, verbatim: post } },
      { ...(await allSessions()), view: 'agent', isNotMe: true, isFollowing: true, isQuiet: true, joins },
    );
  } catch (error) {
    if (signal.aborted) return;
    const why = isReaderGone(error) ? 'the program that started this takes no more messages' : messageOf(error);
    await output.note(`New messages no longer start a turn: ${why}.`);
  }
}

/** Rejects if the inbox is gone. It never says whether it took a message. */
function postTo({ path, token }: HostInbox, id: string, line: string, signal: AbortSignal): Promise<void> {
  const frames = [
    { msgV: 1, type: 'auth', token },
    {
      ...{ msgV: 1, msgId: id, type: 'user', fromName: 'asp', priority: 'next' },
      message: { role: 'user', content: line },
    },
  ];
  return new Promise((resolve, reject) => {
    const socket = connect({ path, signal });
    const fail = (error?: Error): void => {
      socket.destroy();
      reject(readerGone(error));
    };
    socket.setTimeout(ACCEPT_MS, fail);
    socket.once('error', fail);
    socket.once('close', () => resolve());
    socket.resume();
    socket.end(frames.map((frame) => `${JSON.stringify(frame)}\n`).join(''));
  });
}
