import type { StartError } from '../../../service/start-error.js';
import type { LocalServiceRecord } from '../../../wire/local-service.js';
import { CliError, UsageError } from '../../errors.js';
import type { Settings } from './settings.js';

type Ports = Pick<Settings, 'port' | 'metrics-port'>;

/** Why the service did not start. */
export async function translateStartError(
  error: unknown,
  settings: Ports,
  own?: OwnService | undefined,
): Promise<unknown> {
  const { StartError } = await import('../../../service/start-error.js');
  if (!(error instanceof StartError)) return translateFileError(error);
  if (own !== undefined && isInItsWay(error, settings, own)) return runsAlready(own.running, error);
  const facts = { message: error.message, cause: error };
  switch (error.code) {
    case 'PORT_IN_USE':
      return new CliError('ASP_PORT_IN_USE', {
        ...facts,
        next: isMetricsPort(error.message, settings)
          ? ['asp', 'serve', '--metrics-port', '0']
          : ['asp', 'serve', '--port', settings.port === 0 ? '8744' : '0'],
      });
    case 'DATA_IN_USE':
      return new CliError('ASP_PORT_IN_USE', { ...facts, next: ['asp', 'serve', 'status'] });
    case 'DATABASE_NOT_USABLE':
    case 'ATTACHMENTS_NOT_USABLE':
      return new CliError('ASP_CONFIG', facts);
    case 'NOT_ENCRYPTED':
      return new UsageError(error.message, {
        why: 'put a proxy in front of it that ends TLS, and say so: --public-url https://… --behind-proxy.',
      });
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

function isInItsWay({ code }: StartError, { port }: Ports, { running, data }: OwnService): boolean {
  if (code === 'DATA_IN_USE') return running.data === data;
  return code === 'PORT_IN_USE' && Number(new URL(running.operator_url).port) === port;
}

/** A port conflict with the user's own service is not one with another program. */
function runsAlready({ url, pid }: LocalServiceRecord, cause: unknown): CliError {
  return new CliError('ASP_PORT_IN_USE', {
    message: `The local service runs already, at ${url} (process ${pid}).`,
    why: 'use it as it is, end it with asp serve stop, or run a second one beside it: asp serve --port 0 --data <folder>.',
    next: ['asp', 'serve', 'status'],
    cause,
  });
}

function isMetricsPort(message: string, { port, 'metrics-port': metricsPort }: Ports): boolean {
  return metricsPort !== undefined && metricsPort !== port && message.startsWith(`Port ${metricsPort} `);
}

function translateFileError(error: unknown): unknown {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  const why: Record<string, string> = {
    ENOSPC: 'the disk is full.',
    EACCES: 'this user may not write there.',
    EPERM: 'this user may not write there.',
    EEXIST: 'it, or a folder above it, is a file.',
    ENOENT: 'it cannot be made there.',
    ENAMETOOLONG: 'its path is too long.',
    ELOOP: 'its path holds links that lead in a circle.',
    EROFS: 'the disk is read-only.',
    ENOTDIR: 'it, or a folder above it, is a file.',
  };
  if (!Object.hasOwn(why, code)) return error;
  return new CliError('ASP_CONFIG', { message: 'The data folder cannot be used.', why: why[code], cause: error });
}
