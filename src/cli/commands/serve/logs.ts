import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { StringDecoder } from 'node:string_decoder';

import { wait } from '../../../kit/clock.js';
import type { Context } from '../../context/context.js';
import { CliError } from '../../errors.js';
import { localNotRunning } from '../../profile/local-service.js';
import { ReaderGoneError } from '../../terminal/streams.js';
import { type DetachedLog, listLogs } from './detach.js';

const POLL_MS = 100;
const CHUNK_BYTES = 64 * 1024;
/** A line without an end must not be waited for in memory. */
const LINE_MAX_LENGTH = 1024 * 1024;

interface LogsOptions {
  /** Undefined: all. */
  readonly last: number | undefined;
  readonly isFollowing: boolean;
}

export async function printLogs(context: Context, { last, isFollowing }: LogsOptions): Promise<void> {
  // A closed pipe is noticed only after its reader has been seen once.
  context.streams.stdout.isAbandoned();
  const log = await findLog(context);
  const file = await open(log.path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0));
  try {
    const reader = createLineReader(file);
    await printLast(context, reader, last);
    if (isFollowing) await follow(context, reader, log.pid);
    const rest = reader.rest();
    if (rest !== '' && last !== 0) await print(context, rest);
  } finally {
    await file.close();
  }
}

/** The log of the service that runs, or else of the last one that ran in the background. */
async function findLog(context: Context): Promise<DetachedLog> {
  const logs = await listLogs(context);
  const running = await context.localService();
  const log = running === undefined ? logs[0] : logs.find(({ pid }) => pid === running.pid);
  if (log !== undefined) return log;
  if (running === undefined) throw localNotRunning(await context.endedService());
  throw new CliError('ASP_CONFIG', {
    message: `The local service at ${running.url} keeps no log in a file: it was not started with --detach.`,
    why: `process ${running.pid} writes it to the stderr it was given: its terminal, or the journal of its supervisor.`,
  });
}

interface LineReader {
  /** The whole lines that have been written since. */
  read(): AsyncGenerator<string>;
  /** What stands after the last line feed. */
  rest(): string;
}

function createLineReader(file: FileHandle): LineReader {
  const decoder = new StringDecoder('utf8');
  const buffer = Buffer.alloc(CHUNK_BYTES);
  let text = '';
  return {
    async *read() {
      while (true) {
        const { bytesRead } = await file.read(buffer, 0, buffer.length, null);
        if (bytesRead === 0) return;
        text += decoder.write(buffer.subarray(0, bytesRead));
        const lines = text.split('\n');
        text = lines.pop() ?? '';
        yield* lines;
        if (text.length <= LINE_MAX_LENGTH) continue;
        yield text;
        text = '';
      }
    },
    rest: () => text,
  };
}

async function printLast(context: Context, reader: LineReader, last: number | undefined): Promise<void> {
  const kept: string[] = [];
  for await (const line of reader.read()) {
    if (last === undefined) await print(context, line);
    else if (kept.push(line) > last) kept.shift();
  }
  for (const line of kept) await print(context, line);
}

/** Until the service has ended and all it said was printed. */
async function follow(context: Context, reader: LineReader, pid: number): Promise<void> {
  const { clock, machine, signal, streams } = context;
  while (true) {
    const isAlive = machine.isProcessAlive(pid);
    for await (const line of reader.read()) await print(context, line);
    if (!isAlive) return;
    if (streams.stdout.isAbandoned()) throw new ReaderGoneError('the reader is gone');
    await wait(clock, POLL_MS, signal);
  }
}

async function print({ output }: Context, line: string): Promise<void> {
  if (output.format === 'human') await output.text(line);
  else await output.record({ line, entry: entryOf(line) });
}

/** With `--log json` a line is a document of its own. */
function entryOf(line: string): object | null {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}
