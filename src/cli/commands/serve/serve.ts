import type { RunningService, ServiceOptions } from '../../../service/service.js';
import type { InboundPolicy } from '../../../wire/agent.js';
import type { LocalServiceRecord } from '../../../wire/local-service.js';
import type { Context } from '../../context/context.js';
import { LOCAL_SERVICE_NAME } from '../../profile/local-service.js';
import { CliError, UsageError } from '../../terminal/cli-error.js';
import type { Words } from '../../words/words.js';
import { requireUseOfBus } from './bus-setting.js';
import { dataDirectory } from './data-directory.js';
import { showDatabase } from './database-setting.js';
import { ECHO_AGENT, startEchoAgent } from './demo-agents.js';
import { detach } from './detach.js';
import { printSettings, readSettings } from './effective-settings.js';
import { readFaults } from './faults-setting.js';
import { leaveRecord } from './record.js';
import { createServiceLog } from './service-log.js';
import { type Given, givenByWords, type Settings } from './settings.js';
import { translateStartError } from './start-failure.js';

const DEMO_HANDLES = [ECHO_AGENT, '@demo.you', '@alice.bot'];

/** What the words alone say; the environment and a file may say more. */
export interface ServeWords {
  readonly flags: Given;
  readonly configPath: string | undefined;
  readonly printsConfig: boolean;
  readonly isDetached: boolean;
  readonly readyFile: string | undefined;
}

export interface ServeOptions {
  readonly host: string;
  readonly port: number;
  /** Undefined: the user's data folder. */
  readonly data: string | undefined;
  readonly databaseUrl: string | undefined;
  readonly bus: ServiceOptions['bus'];
  readonly publicUrl: string | undefined;
  readonly isBehindProxy: boolean;
  readonly seeds: readonly string[];
  readonly policy: InboundPolicy;
  readonly isDemo: boolean;
  readonly areLimitsOn: boolean;
  readonly trust: 'recipient' | 'symmetric';
  readonly presenceGraceMs: number | undefined;
  readonly log: Settings['log'];
  readonly metricsPort: number | undefined;
  /** Which faults, in the words of `--inject`. */
  readonly inject: string | undefined;
  readonly readyFile: string | undefined;
}

export function parse(words: Words): ServeWords {
  return {
    flags: givenByWords(words),
    configPath: words.text('config'),
    printsConfig: words.flag('print-config'),
    isDetached: words.flag('detach'),
    readyFile: words.text('ready-file'),
  };
}

export async function run(context: Context, words: ServeWords): Promise<void> {
  const effective = await readSettings(context, words.flags, words.configPath);
  if (words.printsConfig) return printSettings(context, effective);
  if (words.isDetached) return detach(context);
  const options = optionsOf(effective.settings, words);
  requireUseOfBus(effective.settings);
  if (options.databaseUrl !== undefined) requireFolder(options.databaseUrl, options.data);
  return serve(context, options);
}

/** What the database keeps must not name files that are gone after the end. */
function requireFolder(database: string, data: string | undefined): void {
  // Says what is wrong with its address.
  showDatabase(database);
  if (data === 'memory') throw new UsageError('With a database, --data is the folder of the attachments, not memory.');
}

function optionsOf(settings: Settings, { readyFile }: ServeWords): ServeOptions {
  const isDemo = settings.demo;
  return {
    host: settings.host,
    port: settings.port,
    data: settings.data,
    databaseUrl: settings.database,
    bus: settings.bus === undefined ? undefined : { url: settings.bus, credentialsFile: settings['bus-creds'] },
    publicUrl: settings['public-url'],
    isBehindProxy: settings['behind-proxy'],
    seeds: [...new Set([...(isDemo ? DEMO_HANDLES : []), ...settings.seed])],
    policy: settings.policy,
    isDemo,
    areLimitsOn: settings.limits === 'on',
    trust: settings.trust,
    presenceGraceMs: settings['presence-grace'],
    log: settings.log,
    metricsPort: settings['metrics-port'],
    inject: settings.inject,
    readyFile,
  };
}

async function serve(context: Context, options: ServeOptions): Promise<void> {
  const { startService } = await import('../../../service/service.js');
  const service = await startService(serviceOptions(context, options)).catch(async (error: unknown) => {
    const running = await context.localService();
    throw await translateStartError(error, options, running && { running, data: placeOfData(context, options) });
  });
  const undo: (() => Promise<void>)[] = [];
  try {
    const record = recordOf(context, options, service);
    undo.push(await leaveRecord(context, record));
    if (options.isDemo) undo.push(await startEchoAgent(context, record));
    await announce(context, options, record, service);
    await untilAskedToStop(context, service);
    await context.output.note('Finishing what is in work; Ctrl-C again ends at once.');
  } finally {
    for (const step of undo.reverse()) await step();
    await service.stop();
  }
}

function serviceOptions(context: Context, options: ServeOptions): ServiceOptions {
  const { host, port, databaseUrl, bus, publicUrl, isBehindProxy, areLimitsOn, trust, presenceGraceMs, metricsPort } =
    options;
  return {
    host,
    port,
    databaseUrl,
    bus,
    publicUrl,
    isBehindProxy,
    areLimitsOn,
    trust,
    presenceGraceMs,
    metricsPort,
    faults: options.inject === undefined ? undefined : readFaults('--inject', options.inject),
    data: options.data === 'memory' ? 'memory' : { directory: dataDirectory(context, options.data) },
    seeds: options.seeds.map((handle) => ({ handle, inboundPolicy: options.policy })),
    version: context.version,
    clock: context.clock,
    random: context.random,
    log: createServiceLog(context, options.log),
  };
}

function recordOf(context: Context, options: ServeOptions, service: RunningService): LocalServiceRecord {
  return {
    name: LOCAL_SERVICE_NAME,
    url: service.baseUrl,
    auth_url: service.authUrl,
    web_url: service.webUrl,
    ws_url: service.wsUrl,
    operator_url: service.operatorUrl,
    pid: context.machine.processId,
    process_start: context.machine.processStart(context.machine.processId),
    version: context.version,
    data: placeOfData(context, options),
    started_at: service.startedAt,
    secret: service.operatorSecret,
  };
}

function placeOfData(context: Context, { data, databaseUrl }: ServeOptions): string {
  if (databaseUrl !== undefined) return showDatabase(databaseUrl);
  return data === 'memory' ? 'memory' : dataDirectory(context, data);
}

async function announce(
  context: Context,
  options: ServeOptions,
  record: LocalServiceRecord,
  service: RunningService,
): Promise<void> {
  const { url, auth_url, web_url, ws_url, pid, version } = record;
  await context.output.document({ url, auth_url, web_url, ws_url, pid, version }, (safe) => safe.url);
  if (options.readyFile !== undefined) await writeReadyFile(options.readyFile, `${url}\n`);
  if (service.metricsUrl !== undefined) await context.output.note(`Metrics are at ${service.metricsUrl}.`);
  if (options.inject !== undefined)
    await context.output.note(`Fails on purpose, REST and WebSocket alike: --inject ${options.inject}.`);
  if (options.publicUrl !== undefined) await context.output.note(`Listening on ${service.host}:${service.port}.`);
  if (!options.isDemo) return context.output.note('Ready. Ctrl-C ends it. In another terminal: asp login');
  await context.output.note(`Ready, with ${options.seeds.join(', ')}. Ctrl-C ends it. In another terminal:`);
  for (const line of ['asp login', `asp send ${ECHO_AGENT} "hi" --wait`]) await context.output.note(`  ${line}`);
}

/** Whoever sees the file finds all of it. */
async function writeReadyFile(path: string, text: string): Promise<void> {
  const { rename, writeFile } = await import('node:fs/promises');
  const temporary = `${path}.new`;
  try {
    await writeFile(temporary, text);
    await rename(temporary, path);
  } catch (error) {
    throw new CliError('ASP_CONFIG', { message: `The ready file ${path} cannot be written.`, cause: error });
  }
}

function untilAskedToStop({ signal }: Context, service: RunningService): Promise<void> {
  const signalled = new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
  return Promise.race([signalled, service.stopRequested]);
}
