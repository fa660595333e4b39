import type { Context } from '../../context/context.js';
import { LOCAL } from '../../profile/resolve-profile.js';
import type { Words } from '../../words/words.js';
import { type ProfileView, requireEntry, viewOf, viewOfLocal } from './profile-view.js';

export interface ShowProfileOptions {
  /** Undefined: the one in use. */
  readonly name: string | undefined;
}

export function parse(words: Words): ShowProfileOptions {
  return { name: words.arguments[0] };
}

export async function run(context: Context, { name }: ShowProfileOptions): Promise<void> {
  const view = name === undefined ? await viewOfUsed(context) : await viewOfNamed(context, name);
  await context.output.document(view, (safe, style) =>
    [
      `${style.bold(safe.name)}${safe.default ? style.dim(' (default)') : ''}`,
      `base url  ${safe.base_url}`,
      `auth url  ${safe.auth_url ?? 'found from the base URL'}`,
      ...(safe.web_url === null ? [] : [`web url   ${safe.web_url}`]),
      `ws url    ${safe.ws_url ?? 'found from the base URL'}`,
      `agent     ${safe.agent ?? '-'}`,
    ].join('\n'),
  );
}

async function viewOfNamed(context: Context, name: string): Promise<ProfileView> {
  const config = await context.config();
  const record = name === LOCAL && !Object.hasOwn(config.profiles, name) ? await context.localService() : undefined;
  return record === undefined ? viewOf(name, requireEntry(config, name), config) : viewOfLocal(record, config);
}

async function viewOfUsed(context: Context): Promise<ProfileView> {
  const [config, used] = await Promise.all([context.config(), context.profile()]);
  if (used.local !== undefined) return viewOfLocal(used.local, config);
  return viewOf(
    used.name,
    {
      base_url: used.baseUrl,
      auth_url: used.authUrl,
      web_url: used.webUrl,
      ws_url: used.wsUrl,
      agent: used.agent,
    },
    config,
  );
}
