import type { StartError } from '../../../service/start-error.js';
import type { LocalServiceRecord } from '../../../wire/local-service.js';
import { CliError, UsageError } from '../../terminal/cli-error.js';
import type { ServeOptions } from './serve.js';

/** Why the service did not start, in the words of the command line. */
export async function translateStartError(
  error: unknown,
  options: Pick<ServeOptions, 'port' | 'metricsPort'>,
  own?: OwnService | undefined,
): Promise<unknown> {
  const { StartError } = await import('../../../service/start-error.js');
  if (!(error instanceof StartError)) return translateFileError(error);
  if (own !== undefined && isInItsWay(error, options, own)) return runsAlready(own.running, error);
  const facts = { message: error.message, cause: error };
  switch (error.code) {
    case 'PORT_IN_USE':
      return new CliError('ASP_PORT_IN_USE', {
        ...facts,
        next: isMetricsPort(error.message, options)
          ? ['asp', 'serve', '--metrics-port', '0']
          : ['asp', 'serve', '--port', options.port === 0 ? '8744' : '0'],
      });
    case 'DATA_IN_USE':
      return new CliError('ASP_PORT_IN_USE', { ...facts, next: ['asp', 'serve', 'status'] });
    case 'DATABASE_NOT_USABLE':
      return new CliError('ASP_CONFIG', facts);
    case 'NOT_ENCRYPTED':
      return new UsageError(error.message, { why: 'give --public-url https://… or --behind-proxy.' });
    case 'ADDRESS_NOT_AVAILABLE':
    case 'BUS_NOT_USABLE':
    case 'INVALID_PUBLIC_URL':
    case 'SEED_NOT_AVAILABLE':
      return new UsageError(error.message);
  }
}

/** The service of this user that runs, and where the one that did not start would have kept its data. */
interface OwnService {
  readonly running: LocalServiceRecord;
  readonly data: string;
}

function isInItsWay(
  { code }: StartError,
  { port }: Pick<ServeOptions, 'port'>,
  { running, data }: OwnService,
): boolean {
  if (code === 'DATA_IN_USE') return running.data === data;
  return code === 'PORT_IN_USE' && Number(new URL(running.operator_url).port) === port;
}

/** The user's own service is no other program. */
function runsAlready({ url, pid }: LocalServiceRecord, cause: unknown): CliError {
  return new CliError('ASP_PORT_IN_USE', {
    message: `The local service runs already, at ${url} (process ${pid}).`,
    why: 'use it as it is, end it with asp serve stop, or run a second one beside it: asp serve --port 0 --data <folder>.',
    next: ['asp', 'serve', 'status'],
    cause,
  });
}

function isMetricsPort(message: string, { port, metricsPort }: Pick<ServeOptions, 'port' | 'metricsPort'>): boolean {
  return metricsPort !== undefined && metricsPort !== port && message.startsWith(`Port ${metricsPort} `);
}

function translateFileError(error: unknown): unknown {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  const why: Record<string, string> = {
    ENOSPC: 'the disk is full.',
    EACCES: 'this user may not write there.',
    EROFS: 'the disk is read-only.',
    ENOTDIR: 'a part of its path is no folder.',
  };
  if (!Object.hasOwn(why, code)) return error;
  return new CliError('ASP_CONFIG', { message: 'The data folder cannot be used.', why: why[code], cause: error });
}
