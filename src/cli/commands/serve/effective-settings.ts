import type { Context } from '../../context/context.js';
import { suggest } from '../../words/suggest.js';
import { requireNoBusSecret, showBus } from './bus-setting.js';
import { requireNoSecret, showDatabase } from './database-setting.js';
import {
  type Effective,
  ENVIRONMENT_PREFIX,
  type Given,
  givenByEnvironment,
  type Layer,
  SETTING_NAMES,
  type SettingName,
  settle,
  variableOf,
} from './settings.js';

/** The name that other programs know for it. */
const DATABASE_VARIABLE = 'ASP_DATABASE';
const CONFIG_VARIABLE = `${ENVIRONMENT_PREFIX}CONFIG`;

/** What holds: a flag before a variable before the file. */
export async function readSettings(context: Context, flags: Given, configPath: string | undefined): Promise<Effective> {
  const { environment } = context;
  if (flags.database !== undefined) requireNoSecret(flags.database);
  if (flags.bus !== undefined) requireNoBusSecret(flags.bus);
  const database = environment[DATABASE_VARIABLE];
  const path = configPath ?? (environment[CONFIG_VARIABLE] || undefined);
  const file: Layer[] = path === undefined ? [] : [await (await import('./config-file.js')).readConfigFile(path)];
  await noteMisspelt(context);
  return settle([
    { given: flags, nameOf: (name) => `--${name}` },
    { given: givenByEnvironment(environment), nameOf: variableOf },
    { given: database ? { database } : {}, nameOf: () => DATABASE_VARIABLE },
    ...file,
  ]);
}

/** A remark and no refusal: an orchestrator may well set variables of this prefix for a service of this name. */
async function noteMisspelt({ environment, output }: Context): Promise<void> {
  const known = [...SETTING_NAMES.map(variableOf), CONFIG_VARIABLE];
  for (const name of Object.keys(environment)) {
    if (!name.startsWith(ENVIRONMENT_PREFIX) || known.includes(name)) continue;
    const [near] = suggest(name, known);
    if (near !== undefined) await output.note(`${name} is no setting of a service and says nothing; is it ${near}?`);
  }
}

/** What may hold a secret, without it. */
const SHOWN: Partial<Record<SettingName, (value: string) => string>> = { database: showDatabase, bus: showBus };

/** One line a setting: what holds and who said so. */
export async function printSettings({ output }: Context, { settings, sources }: Effective): Promise<void> {
  const items = SETTING_NAMES.map((name) => {
    const value = settings[name] ?? null;
    const show = SHOWN[name];
    return { name, value: show !== undefined && value !== null ? show(String(value)) : value, source: sources[name] };
  });
  await output.list({ items, next_cursor: null }, [
    { title: 'name', value: (item) => item.name },
    { title: 'value', value: (item) => (item.value === null ? '' : String(item.value)) },
    { title: 'source', value: (item) => item.source },
  ]);
}
