import * as z from 'zod/mini';
import { toJsonLine } from '../../../kit/json-line.js';
import { parseIfJson } from '../../../kit/parse-json.js';
import type { Context } from '../../context/context.js';
import type { CommandGuard } from './command-guard.js';
import { type LineProcessEnd, startLineProcess, toShownText } from './line-process.js';

/** The result of a request. */
export type AcpReply =
  | { readonly kind: 'result'; readonly result: unknown }
  /** The program answered with an error. */
  | { readonly kind: 'refused'; readonly code: number; readonly why: string }
  | AcpEnded;

/** The agent program is gone, so the answer will never come. */
export interface AcpEnded extends LineProcessEnd {
  readonly kind: 'ended';
}

export interface AcpHandlers {
  /** Answers a request of the agent; undefined: we do not know the method. */
  answer(method: string, params: unknown): Promise<object | undefined>;
  notice(method: string, params: unknown): void;
}

/** An agent program that speaks JSON-RPC 2.0 on its standard input and output, a line for each message (ACP v1, Transports). */
export interface AcpProcess {
  request(method: string, params: object): Promise<AcpReply>;
  notify(method: string, params: object): void;
  /** It is gone, even if not all of its output was read. */
  hasExited(): boolean;
  /** Resolves when the program is gone and all of its output was read. */
  readonly ended: Promise<AcpEnded>;
  /** Ends the program and what it started; `why` is what its open requests fail with. */
  end(why: string): Promise<void>;
}

const Id = z.union([z.string(), z.number()]);
const Frame = z.looseObject({
  id: z.optional(z.nullable(Id)),
  method: z.optional(z.string()),
  params: z.optional(z.unknown()),
  result: z.optional(z.unknown()),
  error: z.optional(z.looseObject({ code: z.number(), message: z.string() })),
});

/** ACP: the agent wants the user to sign in first. */
export const AUTH_REQUIRED = -32000;
const METHOD_NOT_FOUND = { code: -32601, message: 'Method not found' };
const INTERNAL_ERROR = { code: -32603, message: 'Internal error' };

export function startAcpProcess(
  context: Context,
  command: string,
  environment: Readonly<Record<string, string>>,
  guard: CommandGuard,
  handlers: AcpHandlers,
): AcpProcess {
  const { output } = context;
  const open = new Map<number, (reply: AcpReply) => void>();
  let lastId = 0;
  let isGone = false;
  let isNoiseReported = false;

  const send = (message: object): void => program.write(toJsonLine({ jsonrpc: '2.0', ...message }));
  const answer = async (id: string | number, method: string, params: unknown): Promise<void> => {
    try {
      const result = await handlers.answer(method, params);
      send(result === undefined ? { id, error: METHOD_NOT_FOUND } : { id, result });
    } catch {
      send({ id, error: INTERNAL_ERROR });
    }
  };
  /** Logs and greetings on standard output are common; answering them, as JSON-RPC has it, confuses the programs that print them. */
  const passOver = async (line: string): Promise<void> => {
    const text = `The agent program printed a line that is not a protocol message: ${toShownText(line)}`;
    if (isNoiseReported) return output.detail(text);
    isNoiseReported = true;
    await output.note(`${text} (such lines are ignored; -v shows them all)`);
  };
  const take = async (bytes: Buffer): Promise<void> => {
    const line = bytes.toString('utf8').trim();
    const { data } = Frame.safeParse(parseIfJson(line));
    if (data === undefined) return passOver(line);
    const { id, method, params, result, error } = data;
    if (method !== undefined) {
      if (id === undefined || id === null) handlers.notice(method, params);
      else void answer(id, method, params);
      return;
    }
    const settle = typeof id === 'number' ? open.get(id) : undefined;
    if (settle === undefined) return passOver(line);
    open.delete(Number(id));
    if (error === undefined) settle({ kind: 'result', result });
    else settle({ kind: 'refused', code: error.code, why: toShownText(error.message) });
  };

  const noun = 'the agent program';
  const program = startLineProcess(context, guard, { command, environment, noun, name: 'agent_program', onLine: take });
  const ended = program.ended.then((end): AcpEnded => {
    isGone = true;
    const over: AcpEnded = { kind: 'ended', ...end };
    for (const settle of open.values()) settle(over);
    open.clear();
    return over;
  });

  return {
    request: (method, params) =>
      new Promise((resolve) => {
        if (isGone) return void ended.then(resolve);
        lastId += 1;
        open.set(lastId, resolve);
        send({ id: lastId, method, params });
      }),
    notify: (method, params) => send({ method, params }),
    hasExited: program.hasExited,
    ended,
    end: program.end,
  };
}
