import type { Readable } from 'node:stream';
import * as z from 'zod/mini';
import { toJsonLine } from '../../../kit/json-line.js';
import { parseIfJson } from '../../../kit/parse-json.js';
import { sanitizeLine } from '../../../kit/sanitize.js';
import type { Context } from '../../context/context.js';
import { childEnvironment } from '../../terminal/child-environment.js';
import { shorten } from '../../terminal/output.js';
import { type CommandEnd, describeEnd, passOnErrors } from '../session/event-command.js';
import type { CommandGuard } from './command-guard.js';

const KILL_AFTER_MS = 2_000;
const LINE_MAX_BYTES = 8 * 1024 * 1024;
const SHOWN_MAX = 200;

/** Text from the agent program, on one line. */
export const toShownText = (text: string): string => shorten(sanitizeLine(text), SHOWN_MAX);

/** The result of a request. */
export type AcpReply =
  | { readonly kind: 'result'; readonly result: unknown }
  /** The program answered with an error. */
  | { readonly kind: 'refused'; readonly code: number; readonly why: string }
  | AcpEnded;

/** The agent program is gone, so the answer will never come. */
export interface AcpEnded {
  readonly kind: 'ended';
  readonly why: string;
  readonly exitCode: number | null;
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

const METHOD_NOT_FOUND = { code: -32601, message: 'Method not found' };
const INTERNAL_ERROR = { code: -32603, message: 'Internal error' };

export function startAcpProcess(
  context: Context,
  command: string,
  environment: Readonly<Record<string, string>>,
  guard: CommandGuard,
  handlers: AcpHandlers,
): AcpProcess {
  const { clock, machine, output, streams } = context;
  const { child, opened, kill } = guard.start(command, {
    stdio: ['pipe', 'pipe', output.format === 'human' ? 'inherit' : 'pipe'],
    env: childEnvironment(context.environment, environment),
    cwd: machine.workingDirectory,
  });
  const open = new Map<number, (reply: AcpReply) => void>();
  let lastId = 0;
  let stopped: string | undefined;
  let isGone = false;
  let isNoiseReported = false;

  const send = (message: object): void => {
    const line = `${toJsonLine({ jsonrpc: '2.0', ...message })}\n`;
    void opened.then(() => void (isGone || child.stdin?.write(line)));
  };
  const end = async (why: string): Promise<void> => {
    if (stopped === undefined && !isGone) {
      stopped = why;
      child.stdin?.end();
      kill('SIGTERM');
      const cancel = clock.schedule(KILL_AFTER_MS, () => kill('SIGKILL'));
      void ended.then(cancel);
    }
    await ended;
  };
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
    await output.note(`${text}\nSuch lines are ignored; -v shows them all.`);
  };
  const take = async (line: string): Promise<void> => {
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

  const closed = new Promise<CommandEnd | string>((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('close', (exitCode, signal) => resolve({ exitCode, signal }));
  });
  // Its child processes may hold its output open.
  child.once('exit', () => {
    kill('SIGTERM');
    clock.schedule(KILL_AFTER_MS, () => kill('SIGKILL'), true);
  });
  child.stdin?.on('error', () => {});
  const reading = readLines(child.stdout as Readable, take).catch(
    (error: unknown) => void end(error instanceof Error ? error.message : String(error)),
  );
  const passing =
    child.stderr === null ? undefined : passOnErrors(child.stderr, { agent_program: command }, streams.stderr);
  const ended = Promise.all([closed, reading, passing]).then(([how]) => {
    isGone = true;
    const why = stopped ?? (typeof how === 'string' ? how : `the agent program ${describeEnd(how)}`);
    const end: AcpEnded = { kind: 'ended', why, exitCode: typeof how === 'string' ? null : how.exitCode };
    for (const settle of open.values()) settle(end);
    open.clear();
    return end;
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
    ended,
    end,
  };
}

/** Calls `take` for each line that is not blank, one after the other: while it is busy, the program waits to write. */
async function readLines(from: Readable, take: (line: string) => Promise<void>): Promise<void> {
  let parts: Buffer[] = [];
  let size = 0;
  const add = (bytes: Buffer): void => {
    size += bytes.byteLength;
    if (size > LINE_MAX_BYTES)
      throw new Error(`the agent program printed a line longer than ${LINE_MAX_BYTES / 1024 / 1024} MiB`);
    parts.push(bytes);
  };
  const takeLine = async (): Promise<void> => {
    const line = Buffer.concat(parts).toString('utf8').trim();
    parts = [];
    size = 0;
    if (line !== '') await take(line);
  };
  for await (const chunk of from) {
    const bytes = chunk as Buffer;
    let start = 0;
    for (let at = bytes.indexOf(0x0a); at !== -1; at = bytes.indexOf(0x0a, start)) {
      add(bytes.subarray(start, at));
      start = at + 1;
      await takeLine();
    }
    add(bytes.subarray(start));
  }
  await takeLine();
}
