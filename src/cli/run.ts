import { messageOf } from '../kit/format.js';
import { didYouMean, suggest } from '../kit/suggest.js';
import { findCommand, type Request } from './argv.js';
import {
  type Command,
  createArgs,
  type GlobalOption,
  listSpellings,
  loadCommands,
  namedAgent,
  type OperatorOption,
  type Option,
  optionName,
  type WriteOption,
} from './command.js';
import { findAgentHint, isAgentCalling } from './context/agent-hint.js';
import type { ClosableContext, Surroundings } from './context/context.js';
import type { Globals } from './context/globals.js';
import { CliError, usageError } from './errors.js';
import { GLOBAL_OPTIONS } from './options.js';
import { PROGRAM } from './program.js';
import { isReaderGone } from './terminal/streams.js';
import { isColored, loadStyle } from './terminal/style.js';

/** A test's replacement for the effects of a command. */
export interface RunOptions {
  readonly insteadOfRun?: (options: unknown) => void;
}

/** The deadline of most commands. */
const DEFAULT_DEADLINE_MS = 60_000;

/** Facts about a run after a failure. */
interface Progress {
  globals?: Globals;
  context?: ClosableContext;
  command?: Command;
  isDeadlinePassed: boolean;
  /** Whether a coding agent got its hint. */
  isHinted: boolean;
  /** Of an extension. */
  exitCode: number;
}

/** Runs the command in argv and returns the exit code. It writes only to the streams it got. */
export async function run(
  argv: readonly string[],
  surroundings: Surroundings,
  options: RunOptions = {},
): Promise<number> {
  const progress: Progress = { isDeadlinePassed: false, isHinted: false, exitCode: 0 };
  try {
    await dispatch(argv, surroundings, options, progress);
    return progress.exitCode;
  } catch (error) {
    const { signal, environment } = surroundings;
    const code = error instanceof CliError ? error.code : undefined;
    // A reader that leaves has read enough. A change that was made only in part is still not done.
    const isHalfDone = code === 'ASP_PARTIAL' && progress.command?.effect === 'write';
    if (isReaderGone(error) || (isReaderGone(signal.reason) && !isHalfDone)) return 0;
    const isOutputLost = signal.reason instanceof CliError;
    // The end of a mock is often a signal, and what it saw until then is its result.
    const isResult = code === 'ASP_NOT_AS_EXPECTED' || (isHalfDone && isReaderGone(signal.reason));
    if (signal.aborted && !isOutputLost && !isResult) return 1;
    const { reportFailure } = await import('./context/describe-failure.js');
    const { globals, context, command, isDeadlinePassed, isHinted } = progress;
    const isDebug = globals?.isDebug ?? (argv.includes('--debug') || environment['ASP_DEBUG'] === '1');
    const deadlineMs = context?.deadline?.afterMs;
    const isFromSetting = command?.deadlineMs === undefined && globals?.usualTimeoutMs !== undefined;
    const deadlineFrom = globals?.timeoutMs !== undefined ? 'option' : isFromSetting ? 'setting' : undefined;
    const startLocal =
      context && (await (await import('./context/stopped-service.js')).findStartCommand(context, error));
    const identity = { ...context?.identity(), startLocal };
    const facts = { argv, identity, command, isDeadlinePassed, isHinted, isDebug, deadlineMs, deadlineFrom } as const;
    return reportFailure(isOutputLost ? signal.reason : error, facts, surroundings, globals);
  }
}

async function dispatch(
  typed: readonly string[],
  surroundings: Surroundings,
  options: RunOptions,
  progress: Progress,
): Promise<void> {
  const asTyped = await findCommand(PROGRAM, typed);
  const expanded =
    asTyped.unknownWord === undefined
      ? undefined
      : await (await import('./commands/alias.js')).expandAlias(asTyped, typed, surroundings);
  const argv = expanded ?? typed;
  const request = expanded === undefined ? asTyped : await findCommand(PROGRAM, expanded);
  const { command } = request;
  const extension = await findExtensionOf(request, argv, surroundings);
  if (extension !== undefined) {
    progress.exitCode = await extension();
    return;
  }
  if (request.wantsVersion && command?.path !== 'version') return showVersion(argv, surroundings, options, progress);
  if (command === undefined && request.unknownWord !== undefined) throw await strayWordError(request);
  if (command === undefined && !request.wantsHelp) await refuseStrayOptions(request);
  if (command === undefined || request.wantsHelp) return showHelp(request, surroundings);
  await runCommand(command, request, surroundings, options, progress);
}

async function runCommand(
  command: Command,
  { typed, rest }: Request,
  surroundings: Surroundings,
  options: RunOptions,
  progress: Progress,
): Promise<void> {
  const [{ parseArgs }, { readGlobals, readSettings }, { createContext }] = await Promise.all([
    import('./parser.js'),
    import('./context/globals.js'),
    import('./context/create-context.js'),
  ]);
  const parsed = parseArgs({ command, typed, below: wordsBelow(command) }, rest);
  const args = createArgs<GlobalOption | OperatorOption | WriteOption>(parsed);
  const settings = await readSettings(surroundings);
  const globals = readGlobals(args, surroundings.environment, settings, namedAgent(command, parsed));
  progress.globals = globals;
  progress.command = command;
  const hasOneOf = (names: readonly string[]): boolean =>
    names.some((name) => (parsed.options.get(name) ?? false) !== false);
  if (globals.fields !== undefined && !globals.isDryRun && !hasOneOf(command.mixesShapesWith))
    (await import('./commands/schema/schemas.js')).refuseUnknownFields(command.path, globals.fields);

  const stop = new AbortController();
  const signal = AbortSignal.any([surroundings.signal, stop.signal]);
  // Before anything is sent: a wrong expression changes nothing.
  const filter =
    globals.jq === undefined
      ? undefined
      : await (await import('./terminal/jq.js')).createFilter(globals.jq, surroundings.environment, signal);
  // A command with its own deadline, such as login, needs that long.
  const usualMs = command.deadlineMs ?? globals.usualTimeoutMs ?? DEFAULT_DEADLINE_MS;
  const standardMs = hasOneOf(command.endlessWith) ? undefined : usualMs;
  const timeoutMs = command.isEndless ? undefined : (globals.timeoutMs ?? standardMs);
  const { clock } = surroundings;
  const onDeadline = (): void => {
    progress.isDeadlinePassed = true;
    stop.abort(new Error('the deadline has passed'));
  };
  const cancelDeadline = timeoutMs === undefined ? undefined : clock.schedule(timeoutMs, onDeadline);
  const hasPassed = (): boolean => progress.isDeadlinePassed;
  const deadline =
    timeoutMs === undefined ? undefined : { atMs: clock.monotonic() + timeoutMs, afterMs: timeoutMs, hasPassed };
  const context = createContext({ ...surroundings, signal, deadline }, globals, PROGRAM, filter);
  progress.context = context;
  if (globals.format === 'human' && isAgentCalling(surroundings.environment)) {
    const hint = findAgentHint(command.path, (name) => hasOneOf([name]));
    if (hint !== undefined) await context.output.note(hint);
    progress.isHinted = hint !== undefined;
  }
  try {
    const { finishesOnSignal, tidiesUp } = command;
    const work = command.start(parsed, context, options.insteadOfRun);
    if (finishesOnSignal) surroundings.finishOnSignal();
    if (tidiesUp) surroundings.tidyUpOnSignal();
    await (finishesOnSignal || tidiesUp ? work : untilAborted(work, signal));
    context.output.finish();
  } finally {
    cancelDeadline?.();
    await Promise.all([context.close(), filter?.close()]);
  }
}

/** The program on the PATH with the name of a command that asp does not have. All words after it are its own. */
async function findExtensionOf(
  { typed, unknownWord: name }: Request,
  [first, ...args]: readonly string[],
  { environment, machine, signal, lendTerminal }: Surroundings,
): Promise<(() => Promise<number>) | undefined> {
  if (name === undefined || typed.length > 0) return undefined;
  const { findExtension, runExtension } = await import('./terminal/extension.js');
  const file = findExtension(name, { environment, platform: machine.platform });
  if (file === undefined) return undefined;
  if (name !== first)
    throw usageError(`'${name}' is an extension: its name follows asp directly.`, {
      why: 'it reads ASP_PROFILE and ASP_AGENT, not the options of asp.',
      next: ['asp', name],
    });
  return () =>
    runExtension(file, args, { environment, signal, lendTerminal }).catch((cause: unknown) => {
      throw usageError(`asp-${name} could not be run.`, { why: `${messageOf(cause)}.`, cause });
    });
}

/** `--version`: the bare number, or the document of `asp version` if JSON is requested. */
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

/** A command that ignores its signal must not outlive it. */
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

/** How long a command may take to end on its own after its signal. */
const GRACE_MS = 500;

async function showHelp(request: Request, surroundings: Surroundings): Promise<void> {
  const { streams, environment, version } = surroundings;
  const [pages, { textWidth }, program, { chooseColor, readSettings }] = await Promise.all([
    import('./help.js'),
    import('../kit/wrap.js'),
    loadCommands(PROGRAM),
    import('./context/globals.js'),
  ]);
  const color = chooseColor(undefined, environment, await readSettings(surroundings));
  const width = textWidth(streams.stdout);
  const style = await loadStyle(isColored(color, environment, streams.stdout.isTerminal));
  const path = request.path.join(' ');
  const text =
    request.command !== undefined
      ? pages.commandHelp(request.command, style, width) + pages.commandsBelow(program, path, style, width)
      : path !== ''
        ? pages.nounHelp(program, path, style, width)
        : pages.overview(program, version, style, width);
  await streams.stdout.write(text);
}

function wordsBelow({ path }: Command): string[] {
  return PROGRAM.entries
    .filter((each) => each.path.startsWith(`${path} `))
    .map((each) => each.path.slice(path.length + 1).split(' ', 1)[0] ?? '');
}

/** Options mean nothing without a command. */
async function refuseStrayOptions({ rest: [first], typed }: Request): Promise<void> {
  if (first === undefined) return;
  const flagsOf = (options: readonly Option[]): string[] =>
    options.flatMap(({ flags }) => {
      const { short, long } = optionName(flags);
      return [`--${long}`, ...(short === undefined ? [] : [short])];
    });
  const own = flagsOf(GLOBAL_OPTIONS);
  const { commands } = await loadCommands(PROGRAM);
  const isKnown = [...own, ...commands.flatMap(({ options }) => flagsOf(options))].includes(
    first.split('=', 1)[0] ?? '',
  );
  throw usageError(
    isKnown ? `'${first}' needs a command.` : `'${first}' is not an option of ${['asp', ...typed].join(' ')}.`,
    { why: isKnown ? undefined : didYouMean(first, own), next: ['asp', ...typed, '--help'] },
  );
}

/** Commands that people know from other programs. */
const MEANT: Readonly<Record<string, string>> = {
  ...{ ls: 'session list', list: 'session list', watch: 'tail', listen: 'tail', follow: 'tail' },
  ...{ get: 'session show', cat: 'message list', history: 'message list', search: 'message search' },
  ...{
    delete: 'agent remove',
    rm: 'agent remove',
    remove: 'agent remove',
    create: 'session create',
    join: 'session join',
  },
  ...{ end: 'session end', leave: 'session leave', download: 'attachment download', upload: 'attachment upload' },
  ...{ signin: 'login', signout: 'logout', start: 'serve', stop: 'serve stop', logs: 'serve logs' },
};

/** What a noun does with the name of an agent, or with an id. */
const MEANT_BY_NAME: Readonly<Record<string, string>> = {
  ...{ agent: 'show', session: 'show', attachment: 'show', message: 'list' },
  ...{ allowlist: 'add', block: 'add', knock: 'dismiss' },
};

/** An unknown word: the command that the user probably meant, ready to run. */
async function strayWordError({ path, typed, unknownWord = '' }: Request): Promise<CliError> {
  const { nouns, entries } = PROGRAM;
  const spellings = entries.flatMap((entry) => listSpellings(entry, PROGRAM));
  const prefix = path.length === 0 ? '' : `${path.join(' ')} `;
  const candidates = [
    ...spellings.filter((spelling) => spelling.startsWith(prefix)).map((spelling) => spelling.slice(prefix.length)),
    ...(path.length === 0 ? nouns.map(({ noun }) => noun) : []),
  ].flatMap((rest) => rest.split(' ').slice(0, 1));
  const meant = path.length === 0 && Object.hasOwn(MEANT, unknownWord) ? MEANT[unknownWord] : undefined;
  const { findIdKind, parseHandle } = await import('./values.js');
  const isName = parseHandle(unknownWord) !== undefined || findIdKind(unknownWord) !== undefined;
  const named = isName ? MEANT_BY_NAME[path.join(' ')] : undefined;
  const known = meant ?? named;
  const near = known === undefined ? suggest(unknownWord, candidates) : [known];
  const where = ['asp', ...typed].join(' ');
  const shown = near.map((word) => `'${prefix}${word}${named === undefined ? '' : ` ${unknownWord}`}'`);
  return usageError(`'${unknownWord}' is not a command of ${where}.`, {
    why: near.length === 0 ? undefined : `did you mean ${shown.join(' or ')}?`,
    next: ['asp', ...typed, ...(near[0]?.split(' ') ?? []), '--help'],
  });
}
