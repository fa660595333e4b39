import { resolve } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Environment } from '../../kit/environment.js';
import { escapeJson } from '../../kit/json-line.js';
import { createMutex } from '../../kit/mutex.js';
import { sanitize } from '../../kit/sanitize.js';
import { usageError } from '../errors.js';
import { endLine, type Filter, type Filtered } from './output.js';

/** The library that runs jq: absolute, or below the folder of the program. */
declare const ASP_JQ: string;

/**
 * A separate thread: an expression that never ends must not keep Ctrl-C or a deadline from ending the command. jq
 * itself takes at most 256 MiB.
 */
const THREAD = `
  const { parentPort, workerData } = require('node:worker_threads');
  const loading = require(workerData).loadJq();
  parentPort.on('message', async ({ program, input }) => {
    const jq = await loading;
    try {
      parentPort.postMessage(jq.raw(input, program, ['--compact-output', '--']));
    } catch (error) {
      parentPort.postMessage({ stdout: '', stderr: String(error), exitCode: undefined });
    }
  });
`;

/** The output of jq; the exit code is undefined if jq crashed. */
interface Answer {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number | undefined;
}

/** The maximum length of the results of one document. */
const RESULTS_MAX_BYTES = 64 * 1024 * 1024;
/** How long an expression may keep running after the command was asked to end. */
const GRACE_MS = 500;

/**
 * Runs the expression on each document, and prints the end of each: `[result]` lines, `{"error":…}` if it failed, then
 * `null`. The document is its only input, so that the same document always has the same results.
 */
const PREFIX = `
  def halt: error("halt is not available here");
  def halt_error: error;
  def halt_error($code): error;
  def input: error("input is not available here: the expression gets one document at a time");
  def inputs: input;
  def input_filename: null;
  def input_line_number: 0;
  def debug: .;
  def debug(message): .;
  def stderr: .;
  .[1] as $ENV | def env: $ENV;
  .[0][] | (try (foreach (`.replaceAll('\n', ' ');
const SUFFIX = `
  ) as $result (
    0;
    . + ($result | tojson | utf8bytelength);
    if . > ${RESULTS_MAX_BYTES} then error("it has more than 64 MiB of results") else [$result] end
  )) catch {error: .}), null`;

/** Compiles a jq expression. @throws CliError `ASP_USAGE` if it is not one. */
export async function createFilter(expression: string, environment: Environment, signal: AbortSignal): Promise<Filter> {
  const jq = createThread(signal);
  const program = `${PREFIX}\n${expression}${SUFFIX}`;
  const variables = /\bENV\b|\benv\b/.test(expression) ? environment : {};
  const run = (documents: readonly string[]): Promise<Answer> =>
    jq.ask({ program, input: `[[${documents.join(',')}],${JSON.stringify(variables)}]` });
  try {
    // Compiled alone first: a complete expression cannot close the parentheses around it.
    const alone = await jq.ask({ program: expression, input: '' });
    const { exitCode, stderr } = alone.exitCode === 0 ? await run([]) : alone;
    if (exitCode !== 0)
      throw usageError(`--jq '${expression}' is not a jq expression.`, {
        why: describeCompileError(stderr),
        next: ['asp', 'help', 'json'],
      });
  } catch (error) {
    await jq.close();
    throw error;
  }
  const apply = async (documents: readonly string[]): Promise<Filtered[]> => {
    const { stdout, exitCode } = await run(documents);
    if (exitCode === 0) return readAnswer(stdout);
    if (documents.length === 1) return [{ text: '', failure: 'it needs more memory than jq has here' }];
    // One of them crashes jq: find out which.
    const results: Filtered[] = [];
    for (const document of documents) results.push(...(await apply([document])));
    return results;
  };
  return { apply, close: () => jq.close() };
}

/** `jq: error: foo/0 is not defined at <top-level>, line 1, column 4:` and a drawing below it. */
function describeCompileError(stderr: string): string {
  const [line = ''] = stderr.split('\n', 1);
  const message = line
    .replace(/^jq: error: /, '')
    .replace(/ at <top-level>/, '')
    .replace(/[:.]$/, '');
  return `jq says: ${sanitize(message)}.`;
}

function readAnswer(stdout: string): Filtered[] {
  const results: Filtered[] = [];
  let text = '';
  let failure: string | undefined;
  for (const line of stdout.split('\n'))
    if (line === 'null') {
      results.push({ text, failure });
      text = '';
      failure = undefined;
    } else if (line.startsWith('{')) failure = describeError((JSON.parse(line) as { error: unknown }).error);
    else if (line !== '') text += printed(line.slice(1, -1));
  return results;
}

const describeError = (error: unknown): string =>
  sanitize(typeof error === 'string' ? error : `${JSON.stringify(error)} (not a string)`);

/** Strings as they are, for people and other programs alike; everything else as JSON, its numbers unchanged. */
const printed = (json: string): string =>
  json.startsWith('"') ? endLine(sanitize(JSON.parse(json) as string)) || '\n' : `${escapeJson(json)}\n`;

interface Thread {
  ask(question: { readonly program: string; readonly input: string }): Promise<Answer>;
  close(): Promise<void>;
}

/** jq in its thread; if it crashes, a new one takes over. */
function createThread(signal: AbortSignal): Thread {
  let worker: Worker | undefined;
  const inTurn = createMutex();
  const close = async (): Promise<void> => {
    const ended = worker;
    worker = undefined;
    await ended?.terminate();
  };
  const answer = (question: object): Promise<Answer> => {
    // Its own stderr only repeats that it crashed.
    worker ??= new Worker(THREAD, { eval: true, workerData: resolve(__dirname, ASP_JQ), stderr: true });
    const asked = worker;
    return new Promise((resolveAnswer, reject) => {
      let patience: NodeJS.Timeout | undefined;
      const settle = (act: () => void): void => {
        clearTimeout(patience);
        signal.removeEventListener('abort', onAbort);
        asked.off('message', onMessage).off('error', onError).off('exit', onExit);
        act();
      };
      const onAbort = (): void => {
        patience = setTimeout(() => settle(() => void close().then(() => reject(signal.reason))), GRACE_MS);
      };
      const onMessage = (said: Answer): void => settle(() => resolveAnswer(said));
      const onError = (error: unknown): void => settle(() => reject(error));
      const onExit = (): void => settle(() => reject(new Error('the thread of jq has ended')));
      asked.on('message', onMessage).on('error', onError).on('exit', onExit);
      if (signal.aborted) onAbort();
      else signal.addEventListener('abort', onAbort, { once: true });
      asked.postMessage(question);
    });
  };
  return {
    close,
    // One after the other, so that results keep the order of their documents.
    ask: (question) =>
      inTurn(async () => {
        const answered = await answer(question);
        if (answered.exitCode === undefined) await close();
        return answered;
      }),
  };
}
