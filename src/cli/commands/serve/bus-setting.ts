import { hasBusSecret, readBusAddress } from '../../../service/bus/bus-address.js';
import { UsageError } from '../../terminal/cli-error.js';
import type { Settings } from './settings.js';

/** Every program of the machine can read a command line, and the shell remembers it. */
export function requireNoBusSecret(bus: string): void {
  if (!inWords(() => hasBusSecret(bus))) return;
  throw new UsageError('The password of a bus is not given on the command line.', {
    why: 'set ASP_SERVE_BUS to the whole URL, or give a credentials file with --bus-creds.',
  });
}

/** Where the bus is, without what lets anyone in. */
export function showBus(bus: string): string {
  return inWords(() => readBusAddress(bus).shown);
}

/** A bus is between services that share a database, and nothing else. */
export function requireUseOfBus(settings: Settings): void {
  const { bus, database } = settings;
  if (bus === undefined) {
    if (settings['bus-creds'] !== undefined) throw new UsageError('--bus-creds says nothing without --bus.');
    return;
  }
  showBus(bus);
  if (database === undefined)
    throw new UsageError('--bus is between services that share a database: give --database too.', {
      why: 'a service with a folder of its own has nobody to tell.',
    });
}

function inWords<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : '');
  }
}
