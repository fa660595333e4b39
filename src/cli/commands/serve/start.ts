import { rmSync } from 'node:fs';

import { makePrivateDirectory, readIfPresent, UnsafeFileError, writePrivateFile } from '../../../kit/private-file.js';
import type { RunningService, ServiceOptions } from '../../../service/service.js';
import { LocalServiceRecord } from '../../../wire/local-service.js';
import type { Context } from '../../context/context.js';
import { CliError, UsageError } from '../../errors.js';
import { LOCAL_SERVICE_NAME, localServiceFile } from '../../profile/paths.js';
import { openReadyFile } from '../../ready-file.js';
import { dataDirectory } from './data-directory.js';
import { ECHO_AGENT, startEchoAgent } from './echo-agent.js';
import { readFaults } from './faults-setting.js';
import { createServiceLog } from './service-log.js';
import { requireUseOfBus, type Settings, showDatabase } from './settings.js';
import { translateStartError } from './start-failure.js';

const DEMO_HANDLES = [ECHO_AGENT, '@demo.you', '@alice.bot'];

/** What one start is asked for, and no file or variable says. */
interface Once {
  readonly readyFile: string | undefined;
  readonly adoptsAttachments: boolean;
}

/** Runs a service until it is asked to stop. */
export async function start(
  context: Context,
  settings: Settings,
  { readyFile, adoptsAttachments }: Once,
): Promise<void> {
  requireUseOfBus(settings);
  if (settings.database !== undefined) requireFolder(settings.database, settings.data);
  const seeds = [...new Set([...(settings.demo ? DEMO_HANDLES : []), ...settings.seed])];
  const before = readyFile === undefined ? undefined : await context.localService();
  const ready = await openReadyFile(readyFile, (text) => text.trim() === before?.url);
  const { startService } = await import('../../../service/service.js');
  const options = { ...toServiceOptions(context, settings, seeds), adoptsAttachments };
  const service = await startService(options).catch(async (error: unknown) => {
    const running = await context.localService();
    throw await translateStartError(error, settings, running && { running, data: describeData(context, settings) });
  });
  const undo: (() => Promise<void>)[] = [];
  try {
    undo.push(ready.remove);
    const record = toRecord(context, settings, service);
    undo.push(await leaveRecord(context, record));
    if (settings.demo) undo.push(await startEchoAgent(context, record));
    const { url, auth_url, web_url, ws_url, pid, version } = record;
    await context.output.document({ url, auth_url, web_url, ws_url, pid, version }, (safe) => safe.url);
    await ready.write(`${url}\n`);
    await announce(context, settings, seeds, service);
    await untilAskedToStop(context, service);
    const again = context.streams.stderr.isTerminal ? ' Press Ctrl-C again to stop now.' : '';
    await context.output.note(`Finishing open requests.${again}`);
  } finally {
    for (const step of undo.reverse()) await step();
    await service.stop();
  }
}

/** What the database keeps must not name files that are gone after the end. */
function requireFolder(database: string, data: string | undefined): void {
  // Throws where the address is not valid.
  showDatabase(database);
  if (data === 'memory') throw new UsageError('With a database, --data is the folder of the attachments, not memory.');
}

function toServiceOptions(context: Context, settings: Settings, seeds: readonly string[]): ServiceOptions {
  const { bus, data, inject } = settings;
  return {
    host: settings.host,
    port: settings.port,
    databaseUrl: settings.database,
    bus: bus === undefined ? undefined : { url: bus, credentialsFile: settings['bus-creds'] },
    publicUrl: settings['public-url'],
    isBehindProxy: settings['behind-proxy'],
    areLimitsOn: settings.limits === 'on',
    trust: settings.trust,
    accountPolicy: {
      openAgents: settings['open-agents'],
      signUp: settings['sign-up'],
      quota: {
        agents: settings['account-agents'],
        clients: settings['account-clients'],
        attachmentBytes: settings['account-storage'],
        sessionsPerHour: settings['account-sessions'],
      },
    },
    participantsMax: settings['max-participants'],
    presenceGraceMs: settings['presence-grace'],
    metricsPort: settings['metrics-port'],
    faults: inject === undefined ? undefined : readFaults('--inject', inject),
    data: data === 'memory' ? 'memory' : { directory: dataDirectory(context, data) },
    seeds: seeds.map((handle) => ({ handle, inboundPolicy: settings.policy })),
    version: context.version,
    clock: context.clock,
    random: context.random,
    log: createServiceLog(context, settings.log, settings['security-log']),
  };
}

function toRecord(context: Context, settings: Settings, service: RunningService): LocalServiceRecord {
  const { processId } = context.machine;
  return {
    name: LOCAL_SERVICE_NAME,
    url: service.baseUrl,
    auth_url: service.authUrl,
    web_url: service.webUrl,
    ws_url: service.wsUrl,
    operator_url: service.operatorUrl,
    pid: processId,
    process_start: context.machine.processStart(processId),
    version: context.version,
    data: describeData(context, settings),
    started_at: service.startedAt,
    secret: service.operatorSecret,
  };
}

function describeData(context: Context, { data, database }: Settings): string {
  if (database !== undefined) return showDatabase(database);
  return data === 'memory' ? 'memory' : dataDirectory(context, data);
}

async function announce(
  { output, streams }: Context,
  settings: Settings,
  seeds: readonly string[],
  service: RunningService,
): Promise<void> {
  if (service.metricsUrl !== undefined) await output.note(`Metrics are at ${service.metricsUrl}.`);
  if (settings.inject !== undefined)
    await output.note(`Fails on purpose, REST and WebSocket alike: --inject ${settings.inject}.`);
  if (settings['public-url'] !== undefined) await output.note(`Listening on ${service.host}:${service.port}.`);
  if (service.isAddressShared)
    await output.note(
      'All clients seem to come from this machine, so limits by address cannot tell them apart. Is it behind a proxy? Add --behind-proxy.',
    );
  // The log of a service in the background is read where no key reaches it.
  const hint = streams.stderr.isTerminal ? ' Ctrl-C stops it. In another terminal:' : ' To try it:';
  if (!settings.demo) return output.note(`Ready.${hint} asp login`);
  await output.note(`Ready, with ${seeds.join(', ')}.${hint}`);
  for (const line of ['asp login', `asp send ${ECHO_AGENT} "hi" --wait`]) await output.note(`  ${line}`);
}

function untilAskedToStop({ signal }: Context, service: RunningService): Promise<void> {
  const signalled = new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
  return Promise.race([signalled, service.stopRequested]);
}

/**
 * Leaves the addresses and the secret where programs of this OS user find them. The result removes them again, and restores
 * those of a service that ran before and still does.
 */
async function leaveRecord(context: Context, record: LocalServiceRecord): Promise<() => Promise<void>> {
  const path = localServiceFile(context.paths, LOCAL_SERVICE_NAME);
  const before = await context.localService();
  if (before !== undefined)
    await context.output.note(`Another service runs at ${before.url}: until this one ends, "local" means this one.`);
  await writeRecord(context, path, record);
  return async () => {
    // A service that started meanwhile has left a record of its own.
    if ((await readPid(path)) !== record.pid) return;
    if (before !== undefined && context.machine.isProcessAlive(before.pid)) await writeRecord(context, path, before);
    else rmSync(path, { force: true });
  };
}

async function writeRecord({ paths }: Context, path: string, record: LocalServiceRecord): Promise<void> {
  await makePrivateDirectory(paths.runtimeDirectory).catch((error: unknown) => {
    if (!(error instanceof UnsafeFileError)) throw error;
    throw new CliError('ASP_CONFIG', {
      message: `${error.message}.`,
      why: 'the secret of the service would be kept there: set XDG_RUNTIME_DIR to a folder of your own.',
    });
  });
  return writePrivateFile(path, `${JSON.stringify(record)}\n`);
}

async function readPid(path: string): Promise<number | undefined> {
  try {
    return LocalServiceRecord.parse(JSON.parse((await readIfPresent(path)) ?? '')).pid;
  } catch {
    return undefined;
  }
}
