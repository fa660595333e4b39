import type { Context } from '../../context/context.js';
import type { Words } from '../../words/words.js';
import { settingsOf } from './settings.js';

export interface ListConfigOptions {
  readonly hasOrigin: boolean;
}

/** What the environment says in place of a setting, or beside them. */
const VARIABLES = [
  'ASP_PROFILE',
  'ASP_AGENT',
  'ASP_CLIENT_ID',
  'ASP_CLIENT_SECRET_FILE',
  'ASP_TOKEN_STORE',
  'ASP_FORMAT',
  'ASP_TIMEOUT',
  'ASP_RETRIES',
  'ASP_NO_INPUT',
  'ASP_DEBUG',
];

export function parse(words: Words): ListConfigOptions {
  return { hasOrigin: words.flag('origin') };
}

/** The file's settings; with `--origin` also what the folder and the environment say, and where each comes from. */
export async function run(context: Context, { hasOrigin }: ListConfigOptions): Promise<void> {
  const { paths, environment, output } = context;
  const items = settingsOf(await context.config()).map((item) => ({ ...item, origin: paths.configFile ?? null }));
  if (hasOrigin) {
    const file = await context.projectFile();
    for (const key of ['profile', 'agent'] as const) {
      const value = file?.[key];
      if (file !== undefined && value !== undefined) items.push({ key, value, origin: file.path });
    }
    for (const name of VARIABLES) {
      const value = environment[name];
      if (value !== undefined && value !== '') items.push({ key: name, value, origin: 'environment' });
    }
  }
  await output.list({ items, next_cursor: null }, [
    { title: 'setting', value: ({ key }) => key },
    { title: 'value', value: ({ value }) => value, isFlexible: true },
    ...(hasOrigin ? [{ title: 'from', value: ({ origin }: { origin: string | null }) => origin ?? '-' }] : []),
  ]);
  if (items.length === 0) await output.note('Nothing is set. Begin with: asp profile add <name> --base-url <url>');
}
