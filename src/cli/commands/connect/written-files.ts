import { createHash } from 'node:crypto';
import { lstatSync, promises, readFileSync, realpathSync, rmdirSync, type Stats, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import * as z from 'zod/mini';
import { withProcessLock } from '../../../client/credentials/process-lock.js';
import {
  fileFault,
  isFileError,
  isUnsafeFile,
  readPrivateFile,
  removePrivateFile,
  replaceFile,
  writePrivateFile,
} from '../../../kit/private-file.js';
import type { Context } from '../../context/context.js';
import { CliError } from '../../errors.js';
import { formatDiff } from '../../terminal/diff.js';
import type { Made, OutputOf } from '../schema/output-shapes.js';
import type { Wanted } from './coding-agents.js';
import { addEntry, Change, changeBetween, removeEntry, rewriteEntry } from './config-entry.js';

const EntryJson = z.object({
  format: z.enum(['json', 'toml']),
  path: z.array(z.string()),
  value: z.record(z.string(), z.unknown()),
});

/** Records what asp wrote to one file, so that disconnect removes exactly that. */
const Written = z.object({
  agent: z.string(),
  path: z.string(),
  /** The file was not there before. */
  created: z.boolean(),
  /** Folders that were created for it, the innermost first. */
  folders: z.array(z.string()),
  /** Set if asp owns the whole file. */
  sha256: z.optional(z.string()),
  entry: z.optional(EntryJson),
  change: z.optional(Change),
});
type Written = z.infer<typeof Written>;

const RecordJson = z.object({ version: z.literal(1), files: z.array(Written) });

/** The change to one file. `diff`: removed and added lines. `note`: why something was left in place. */
export type FileStep = Made<OutputOf<'connect'>['files'][number]>;

interface Plan {
  readonly path: string;
  /** Undefined if the file does not exist. */
  readonly before: string | undefined;
  readonly after: string | undefined;
  readonly mode: number;
  readonly note: string | null;
  /** Goes into the record once the file is written. */
  readonly written: Written | undefined;
}

export interface Purpose {
  readonly agent: string;
  /** Writes and removes nothing. */
  readonly isDry: boolean;
  /** Replaces files of ours that someone changed, and files that are in the way. */
  readonly isForced: boolean;
  /** Keeps everything else that was written for the agent. */
  readonly isAddition?: boolean;
}

/** Writes files and entries, all or none of them; what an earlier run wrote is replaced. */
export function writeFiles(context: Context, purpose: Purpose, wanted: readonly Wanted[]): Promise<FileStep[]> {
  return withRecord(context, purpose.isDry, (files) => {
    const plans = wanted.map((one) => planWriting(one, purpose, files));
    const isLeft = ({ agent, path }: Written): boolean =>
      purpose.isAddition !== true && agent === purpose.agent && !plans.some((plan) => plan.path === path);
    return [...files.filter(isLeft).map(planRemoval), ...plans];
  });
}

/** Removes what was written for an agent. What someone changed since then stays. */
export function removeFiles(context: Context, { agent, isDry }: Omit<Purpose, 'isForced'>): Promise<FileStep[]> {
  return withRecord(context, isDry, (files) => files.filter((written) => written.agent === agent).map(planRemoval));
}

/** The agents for which something was written. */
export async function listWritten(context: Context): Promise<ReadonlySet<string>> {
  return new Set((await readRecord(recordPath(context))).map(({ agent }) => agent));
}

async function withRecord(
  context: Context,
  isDry: boolean,
  plan: (files: readonly Written[]) => readonly Plan[],
): Promise<FileStep[]> {
  const path = recordPath(context);
  const planned = (files: readonly Written[]): readonly Plan[] => {
    try {
      return plan(files);
    } catch (error) {
      throw unwritable(error);
    }
  };
  if (isDry) return planned(await readRecord(path)).map(toStep);
  const { clock, random, signal } = context;
  const work = async (): Promise<FileStep[]> => {
    const files = await readRecord(path);
    const plans = planned(files);
    const others = files.filter((written) => !plans.some((each) => each.path === written.path));
    const next = plans.flatMap(({ written }) => written ?? []);
    const gone = files.filter((written) => !others.includes(written) && !next.some((one) => one.path === written.path));
    const record = (list: readonly Written[]): Promise<void> =>
      writePrivateFile(path, `${JSON.stringify({ version: 1, files: list }, null, 2)}\n`);
    // Recorded before it is written: a change without a record could not be undone.
    await record([...others, ...gone, ...next]).catch((error: unknown) => Promise.reject(unwritable(error, path)));
    await carryOut(plans);
    await record([...others, ...next]);
    for (const { folders } of gone) for (const folder of folders) removeEmpty(folder);
    return plans.map(toStep);
  };
  return withProcessLock({ clock, random }, `connect\n${path}`, work, signal);
}

function planWriting(one: Wanted, { agent, isForced }: Purpose, files: readonly Written[]): Plan {
  const path = realPath(one.kind === 'entry' && one.or !== undefined && exists(one.or) ? one.or : one.path);
  const earlier = files.find((written) => written.path === path);
  const { text: before, mode } = readText(path);
  const base = {
    agent,
    path,
    created: earlier?.created ?? before === undefined,
    folders: earlier?.folders ?? missingFolders(path),
  };
  const plan = { path, before, mode, note: null };
  if (one.kind === 'whole') {
    const isOurs = before === undefined || before === one.text || sha256(before) === earlier?.sha256;
    if (!isOurs && !isForced) throw changedFile(path, earlier !== undefined);
    return { ...plan, after: one.text, written: { ...base, sha256: sha256(one.text) } };
  }
  const { entry } = one;
  const kept = before === undefined ? undefined : withoutEarlier(before, earlier, isForced);
  if (kept === 'changed') throw changedFile(`${path}: ${entry.path.join('.')}`, true, isForced);
  const after = addEntry(kept ?? '', entry, path);
  // An entry that already existed is not ours to remove.
  if (after === kept) return { ...plan, after: before, written: earlier };
  return {
    ...plan,
    after,
    written: {
      ...base,
      entry: { ...entry, path: [...entry.path], value: { ...entry.value } },
      change: changeBetween(kept ?? '', after),
    },
  };
}

/** The text as it was before an earlier run. `isForced`: also if someone changed the entry since then. */
function withoutEarlier(text: string, earlier: Written | undefined, isForced: boolean): string | 'changed' {
  const { entry, change } = earlier ?? {};
  if (entry === undefined || change === undefined) return text;
  const remove = (from: string): string | 'changed' => {
    const removal = removeEntry(from, entry, change);
    if (removal.kind === 'changed') return 'changed';
    return removal.kind === 'removed' ? removal.text : from;
  };
  const left = remove(text);
  const rewritten = left === 'changed' && isForced ? rewriteEntry(text, entry) : undefined;
  return rewritten === undefined ? left : remove(rewritten);
}

function planRemoval(written: Written): Plan {
  const { path, created, entry, change } = written;
  const { text: before, mode } = readText(path);
  const plan = { path, before, mode, note: null, written: undefined };
  if (before === undefined) return { ...plan, after: undefined };
  const stays = (note: string): Plan => ({ ...plan, after: before, note });
  if (entry === undefined || change === undefined)
    return sha256(before) === written.sha256
      ? { ...plan, after: undefined }
      : stays('it was changed since it was written, so it stays: remove it yourself');
  const removal = removeEntry(before, entry, change);
  if (removal.kind === 'gone') return { ...plan, after: before };
  if (removal.kind === 'changed')
    return stays(`${entry.path.join('.')} was changed since it was written, so it stays: remove it yourself`);
  return { ...plan, after: created && removal.text.trim() === '' ? undefined : removal.text };
}

/** All of them or none: a failure undoes the changes before it. */
async function carryOut(plans: readonly Plan[]): Promise<void> {
  const done: Plan[] = [];
  let current: string | undefined;
  try {
    for (const plan of plans) {
      current = plan.path;
      if (plan.before === plan.after) continue;
      if (readText(plan.path).text !== plan.before)
        throw new CliError('ASP_CONFIG', {
          message: `Another program changed ${plan.path} in the meantime.`,
          why: 'nothing was changed. Run the command again.',
          isRetryable: true,
        });
      done.push(plan);
      await put(plan.path, plan.after, plan.mode);
    }
  } catch (error) {
    for (const { path, before, mode } of done.reverse()) await put(path, before, mode).catch(() => {});
    throw unwritable(error, current);
  }
}

async function put(path: string, text: string | undefined, mode: number): Promise<void> {
  if (text === undefined) {
    await removePrivateFile(path);
    return;
  }
  await replaceFile(path, text, { mode });
  // The mask of new files may have narrowed it.
  await promises.chmod(path, mode);
}

function unwritable(error: unknown, path = 'a file'): unknown {
  const fault = isUnsafeFile(error) ? undefined : fileFault(error);
  if (fault === undefined) return error;
  const message = `asp cannot read or write ${path}.`;
  return new CliError('ASP_CONFIG', { message, why: `${fault}. Nothing was changed.`, cause: error });
}

function changedFile(what: string, isOurs: boolean, isForced = false): CliError {
  return new CliError('ASP_FILE_EXISTS', {
    message: isOurs ? `${what} was changed since asp wrote it.` : `${what} exists and is not from asp.`,
    why: isForced
      ? 'nothing was changed. Remove it yourself, then run the command again.'
      : 'nothing was changed. Remove it, or replace it with --force.',
  });
}

const NEW_FILE_MODE = 0o644;
const WRITABLE = 0o200;

/** @throws CliError `ASP_CONFIG` for what cannot be read or changed */
function readText(path: string): { readonly text: string | undefined; readonly mode: number } {
  const refuse = (why: string, cause?: unknown): never => {
    throw new CliError('ASP_CONFIG', { message: `${path} cannot be changed.`, why, cause });
  };
  let state: Stats | undefined;
  try {
    state = statSync(path, { throwIfNoEntry: false });
    if (state === undefined) return { text: undefined, mode: NEW_FILE_MODE };
    if (!state.isFile()) return refuse('it is not a file.');
    if ((state.mode & WRITABLE) === 0) return refuse('it is read-only.');
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(readFileSync(path));
    return { text, mode: state.mode & 0o777 };
  } catch (error) {
    if (error instanceof CliError) throw error;
    return refuse(error instanceof TypeError ? 'it is not UTF-8.' : `${(error as Error).message}.`, error);
  }
}

const exists = (path: string): boolean => statSync(path, { throwIfNoEntry: false }) !== undefined;

/** Where a link leads: people link settings to a folder that they share. A broken link is refused. */
function realPath(path: string): string {
  if (lstatSync(path, { throwIfNoEntry: false }) === undefined) {
    const folder = dirname(path);
    return folder === path ? path : join(realPath(folder), basename(path));
  }
  try {
    return realpathSync(path);
  } catch (error) {
    throw new CliError('ASP_CONFIG', {
      message: `${path} is a broken link.`,
      why: 'remove it first.',
      cause: error,
    });
  }
}

/** The folders to create, the innermost first. */
function missingFolders(path: string): string[] {
  const folder = dirname(path);
  return folder === path || exists(folder) ? [] : [folder, ...missingFolders(folder)];
}

function removeEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch (error) {
    if (!isFileError(error, 'ENOTEMPTY', 'EEXIST', 'ENOENT', 'EACCES', 'EPERM')) throw error;
  }
}

function toStep({ path, before, after, note }: Plan): FileStep {
  const action =
    before === after ? 'keep' : before === undefined ? 'create' : after === undefined ? 'remove' : 'change';
  return { path, action, diff: formatDiff(before ?? '', after ?? ''), note };
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

function recordPath({ paths }: Context): string {
  if (paths.stateDirectory !== undefined) return join(paths.stateDirectory, 'connect.json');
  throw new CliError('ASP_CONFIG', {
    message: 'asp cannot record its changes: this user has no home directory.',
    why: 'set XDG_STATE_HOME to a folder.',
  });
}

async function readRecord(path: string): Promise<readonly Written[]> {
  try {
    const text = await readPrivateFile(path);
    if (text === undefined) return [];
    return RecordJson.parse(JSON.parse(text)).files;
  } catch (error) {
    if (isUnsafeFile(error))
      throw new CliError('ASP_CONFIG', {
        message: `${error.message}.`,
        why: 'asp connect does not trust it.',
        cause: error,
      });
    throw new CliError('ASP_CONFIG', {
      message: `${path} is damaged.`,
      why: 'it lists what asp connect wrote. Delete it, and remove the entries of asp by hand.',
      cause: error,
    });
  }
}
