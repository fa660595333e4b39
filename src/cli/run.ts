import type { ClosableContext, Surroundings } from './context/context.js';
import type { Globals } from './context/globals.js';
import type { Row } from './context/leaf.js';
import { OVERVIEW, PROGRAM } from './program.js';
import { UsageError } from './terminal/cli-error.js';
import { ReaderGoneError } from './terminal/streams.js';
import { isColoured, loadStyle } from './terminal/style.js';
import { findCommand, type Request, spellingsOf } from './words/find-command.js';
import { suggest } from './words/suggest.js';

const DEFAULT_DEADLINE_MS = 60_000;

/** A test's replacement for the effects of a command. */
export interface RunOptions {
  readonly insteadOfRun?: (options: unknown) => void;
}

/** What is known of a run once it failed. */
interface Progress {
  globals?: Globals;
  context?: ClosableContext;
  isDeadlinePassed: boolean;
}

/** Runs what argv asks for and gives the exit code. It writes to the streams it was given and to nothing else. */
export async function run(
  argv: readonly string[],
  surroundings: Surroundings,
  options: RunOptions = {},
): Promise<number> {
  const progress: Progress = { isDeadlinePassed: false };
  try {
    await dispatch(argv, surroundings, options, progress);
    return 0;
  } catch (error) {
    const { signal, environment } = surroundings;
    if (error instanceof ReaderGoneError || signal.reason instanceof ReaderGoneError) return 0;
    if (signal.aborted) return 1;
    const { reportFailure } = await import('./report-failure.js');
    const { globals, context, isDeadlinePassed } = progress;
    const isDebug = globals?.isDebug ?? (argv.includes('--debug') || environment['ASP_DEBUG'] === '1');
    const facts = { argv, acting: context?.acting() ?? {}, isDeadlinePassed, isDebug, timeoutMs: globals?.timeoutMs };
    return reportFailure(error, facts, surroundings, globals);
  }
}

async function dispatch(
  argv: readonly string[],
  surroundings: Surroundings,
  options: RunOptions,
  progress: Progress,
): Promise<void> {
  const request = findCommand(PROGRAM, argv);
  const { row } = request;
  if (request.wantsVersion && row?.words !== 'version') return showVersion(argv, surroundings, options, progress);
  if (row === undefined && request.stray !== undefined) throw strayWordError(request);
  if (row === undefined && !request.wantsHelp) refuseStrayOptions(request);
  if (row === undefined || request.wantsHelp) return showHelp(request, surroundings);

  const [{ readWords }, { readGlobals }, { createContext }, command] = await Promise.all([
    import('./words/read-words.js'),
    import('./context/globals.js'),
    import('./context/create-context.js'),
    row.load(),
  ]);
  const words = readWords({ row, typed: request.typed }, request.rest);
  const globals = readGlobals(words, surroundings.environment);
  progress.globals = globals;
  const isOfItsShape = !globals.isDryRun && !words.flag('control');
  if (globals.fields !== undefined && isOfItsShape)
    (await import('./commands/schema/known-fields.js')).refuseUnknownFields(row.words, globals.fields);

  const stop = new AbortController();
  const standardMs = row.endlessWith?.some((option) => words.flag(option)) ? undefined : DEFAULT_DEADLINE_MS;
  const timeoutMs = row.isEndless === true ? undefined : (globals.timeoutMs ?? standardMs);
  const cancelDeadline =
    timeoutMs === undefined
      ? undefined
      : surroundings.clock.schedule(timeoutMs, () => {
          progress.isDeadlinePassed = true;
          stop.abort(new Error('the deadline has passed'));
        });
  const signal = AbortSignal.any([surroundings.signal, stop.signal]);
  const context = createContext({ ...surroundings, signal }, globals, PROGRAM, OVERVIEW);
  progress.context = context;
  try {
    const work = command.start(words, context, options.insteadOfRun);
    if (row.finishesOnSignal === true) surroundings.finishOnSignal();
    if (row.tidiesUp === true) surroundings.tidyUpOnSignal();
    await (row.finishesOnSignal === true || row.tidiesUp === true ? work : untilAborted(work, signal));
  } finally {
    cancelDeadline?.();
    await context.close();
  }
}

/** `--version`: the bare number, or what `asp version` says where a document was asked for. */
async function showVersion(
  argv: readonly string[],
  surroundings: Surroundings,
  options: RunOptions,
  progress: Progress,
): Promise<void> {
  const { guessFormat } = await import('./context/globals.js');
  const format = guessFormat(argv, surroundings.environment);
  if (format === 'human') return surroundings.streams.stdout.write(`${surroundings.version}\n`);
  return dispatch(['version', `--${format}`], surroundings, options, progress);
}

/** A command that does not heed its signal must not outlive it. */
async function untilAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  let onAbort = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => setTimeout(() => reject(signal.reason), GRACE_MS).unref();
    signal.addEventListener('abort', onAbort, { once: true });
  });
  try {
    await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** What a command gets to end in its own words once its signal was given. */
const GRACE_MS = 500;

async function showHelp(request: Request<unknown>, surroundings: Surroundings): Promise<void> {
  const { streams, environment, version } = surroundings;
  const help = await import('./words/help.js');
  const style = await loadStyle(isColoured('auto', environment, streams.stdout.isTerminal));
  const noun = request.words.length === 0 ? undefined : request.words.join(' ');
  const text =
    request.row !== undefined
      ? help.commandHelp(request.row, style) + help.commandsBelow(PROGRAM, noun ?? '', style)
      : noun !== undefined
        ? help.groupHelp(PROGRAM, noun, style)
        : help.overview(PROGRAM, OVERVIEW, version, style);
  await streams.stdout.write(text);
}

/** Options lead nowhere without a command. */
function refuseStrayOptions({ rest: [first], typed }: Request<unknown>): void {
  if (first !== undefined) throw new UsageError(`'${first}' needs a command.`, { next: ['asp', ...typed, '--help'] });
}

/** A word that leads nowhere: what was probably meant, as it can be run. */
function strayWordError(request: Request<unknown>): UsageError {
  const { words, typed, stray = '' } = request;
  const noun = words.join(' ');
  const rows: readonly Row[] = PROGRAM.commands;
  const spellings = rows.filter(({ isHidden }) => isHidden !== true).flatMap((row) => spellingsOf(row, PROGRAM));
  const prefix = noun === '' ? '' : `${noun} `;
  const candidates = [
    ...spellings.filter((spelling) => spelling.startsWith(prefix)).map((spelling) => spelling.slice(prefix.length)),
    ...(noun === '' ? PROGRAM.groups.map((group) => group.noun) : []),
  ].flatMap((rest) => rest.split(' ').slice(0, 1));
  const near = suggest(stray, candidates);
  const where = ['asp', ...typed].join(' ');
  return new UsageError(`'${stray}' is not a command of ${where}.`, {
    why: near.length === 0 ? undefined : `did you mean ${near.map((word) => `'${prefix}${word}'`).join(' or ')}?`,
    next: ['asp', ...typed, ...(near[0] === undefined ? [] : [near[0]]), '--help'],
  });
}
