import { join } from 'node:path';

import type { Context } from '../../context/context.js';
import { loginsAt } from '../../context/login-place.js';
import { type Config, PROFILE_NAME } from '../../profile/config.js';
import { PROJECT_FILE_NAME } from '../../profile/project-file.js';
import { LOCAL_AGENT_SETTING, type ResolvedProfile } from '../../profile/resolve-profile.js';
import { UsageError } from '../../terminal/cli-error.js';
import { readHandle } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { changeProjectFile } from './change-project-file.js';

export interface UseOptions {
  /** Undefined: forget the choice, or ask when `isUnset` is not said. */
  readonly handle: string | undefined;
  readonly isHere: boolean;
  readonly isUnset: boolean;
}

export function parse(words: Words): UseOptions {
  const [handle] = words.arguments;
  const isUnset = words.flag('unset');
  if (isUnset && handle !== undefined) throw new UsageError('--unset and a handle cannot be used together.');
  return { handle: handle === undefined ? undefined : readHandle(handle), isHere: words.flag('here'), isUnset };
}

export async function run(context: Context, options: UseOptions): Promise<void> {
  if (options.isUnset && options.isHere) {
    const path = join(context.machine.workingDirectory, PROJECT_FILE_NAME);
    await changeProjectFile(path, context.random, ({ profile }) => ({ profile }));
    return tell(context, null, null, path);
  }
  const profile = await context.profile();
  const handle = options.isUnset ? undefined : (options.handle ?? (await askHandle(context, profile)));
  const path = options.isHere
    ? await keepHere(context, profile, handle)
    : await keepWithProfile(context, profile, handle);
  await tell(context, handle ?? null, profile.name, path);
  if (handle !== undefined) await warn(context, profile, handle, options.isHere);
}

async function tell(context: Context, handle: string | null, profile: string | null, path: string): Promise<void> {
  const where = profile === null || path.endsWith(PROJECT_FILE_NAME) ? path : `profile ${profile}`;
  await context.output.note(handle === null ? `No agent is chosen in ${where} any more.` : `Kept in ${where}.`);
  await context.output.document({ handle, profile, path }, (safe) => safe.handle ?? '');
}

async function askHandle(context: Context, { baseUrl }: ResolvedProfile): Promise<string> {
  const logins = await loginsAt(context, baseUrl);
  const handles = logins.flatMap(({ handle }) => (handle === null ? [] : [handle]));
  if (handles.length === 0 || !context.prompts.canAsk)
    throw new UsageError('Which agent?', {
      why: handles.length === 0 ? undefined : `signed in are ${handles.slice(0, 8).join(', ')}.`,
      next: ['asp', 'use', handles[0] ?? 'alice.bot'],
    });
  return context.prompts.choose('Which agent?', handles, 'its handle');
}

async function keepWithProfile(
  context: Context,
  profile: ResolvedProfile,
  handle: string | undefined,
): Promise<string> {
  const config = await context.config();
  await context.saveConfig(withAgent(config, profile, handle));
  return context.paths.configFile ?? '';
}

function withAgent(config: Config, profile: ResolvedProfile, handle: string | undefined): Config {
  if (profile.local !== undefined) {
    const { [LOCAL_AGENT_SETTING]: _, ...settings } = config.settings;
    return { ...config, settings: handle === undefined ? settings : { ...settings, [LOCAL_AGENT_SETTING]: handle } };
  }
  const entry = Object.hasOwn(config.profiles, profile.name) ? config.profiles[profile.name] : undefined;
  if (entry === undefined) throw unnamed(profile);
  return { ...config, profiles: { ...config.profiles, [profile.name]: { ...entry, agent: handle } } };
}

async function keepHere(context: Context, profile: ResolvedProfile, handle: string | undefined): Promise<string> {
  if (!PROFILE_NAME.test(profile.name)) throw unnamed(profile);
  const path = join(context.machine.workingDirectory, PROJECT_FILE_NAME);
  await changeProjectFile(path, context.random, () => ({ profile: profile.name, agent: handle }));
  return path;
}

function unnamed({ baseUrl }: ResolvedProfile): UsageError {
  return new UsageError('An agent is kept with a profile, and this service has no profile yet.', {
    next: ['asp', 'profile', 'add', 'work', '--base-url', baseUrl],
  });
}

/** What stands between the choice and its effect. */
async function warn(context: Context, profile: ResolvedProfile, handle: string, isHere: boolean): Promise<void> {
  const { environment, output } = context;
  const file = isHere ? undefined : await context.projectFile();
  const isFileAbove = file?.agent !== undefined && (file.profile === undefined || file.profile === profile.name);
  if ((environment['ASP_AGENT'] ?? '') !== '') await output.note(`ASP_AGENT still says ${environment['ASP_AGENT']}.`);
  else if (isFileAbove && file.agent !== handle)
    await output.note(`In this folder ${file.path} still says ${file.agent}.`);
  if (
    profile.credentialCommand !== undefined ||
    (environment['ASP_CLIENT_ID'] ?? environment['ASP_TOKEN']) !== undefined
  )
    return;
  const logins = await loginsAt(context, profile.baseUrl);
  if (!logins.some((login) => login.handle === handle))
    await output.note(`It is not signed in yet: asp login ${handle}`);
}
