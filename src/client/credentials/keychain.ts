import { randomBytes } from 'node:crypto';

import type { Clock } from '../../kit/clock.js';
import { RequestError } from '../http/request-error.js';
import type { LoginKey } from './login.js';
import { type SecretStore, storeLocked, storeUnavailable } from './secret-store.js';
import { type KeyringState, readKeyringState } from './session-bus.js';

/** The whole probe of a keychain, in milliseconds. */
const PROBE_TIMEOUT_MS = 3_000;
/** Elsewhere a person may be asked to allow the access. */
const CALL_TIMEOUT_MS = 30_000;
/** What Windows takes: 2,560 bytes of UTF-16. */
const ITEM_MAX_LENGTH = 1_280;

type Keytar = Pick<typeof import('keytar'), 'getPassword' | 'setPassword' | 'deletePassword'>;

/** What the keychain depends on. */
export interface KeychainOptions {
  readonly clock: Clock;
  readonly platform: NodeJS.Platform;
  /** Where the session bus is, on Linux. */
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** The keychain of the operating system, and its probe. */
export interface Keychain extends SecretStore {
  probe(): Promise<void>;
}

/** Secrets in the keychain of macOS, Windows, or the Secret Service of a Linux desktop. */
export function createKeychain(options: KeychainOptions): Keychain {
  const { clock } = options;
  const call = async <Result>(timeoutMs: number, work: (keytar: Keytar) => Promise<Result>): Promise<Result> => {
    await requireOpenKeyring(options);
    const keytar = await load();
    return within(clock, timeoutMs, work(keytar));
  };
  const timeoutMs = options.platform === 'linux' ? PROBE_TIMEOUT_MS : CALL_TIMEOUT_MS;
  return {
    kind: 'keychain',
    async get(key) {
      const secret = await call(timeoutMs, (keytar) => keytar.getPassword(serviceOf(key), accountOf(key)));
      return secret ?? undefined;
    },
    async set(key, secret) {
      if (secret.length > ITEM_MAX_LENGTH)
        throw storeUnavailable('The login is larger than a keychain item can be: use the file store.');
      await call(timeoutMs, (keytar) => keytar.setPassword(serviceOf(key), accountOf(key), secret));
    },
    delete: (key) => call(timeoutMs, (keytar) => keytar.deletePassword(serviceOf(key), accountOf(key))),
    async probe() {
      const key = { baseUrl: 'probe', handle: `@probe.${randomBytes(6).toString('hex')}` };
      const secret = randomBytes(16).toString('hex');
      const found = await call(PROBE_TIMEOUT_MS, async (keytar) => {
        await keytar.setPassword(serviceOf(key), accountOf(key), secret);
        const read = await keytar.getPassword(serviceOf(key), accountOf(key));
        await keytar.deletePassword(serviceOf(key), accountOf(key));
        return read;
      });
      if (found !== secret) throw storeUnavailable('The keychain does not give back what was stored in it.');
    },
  };
}

function serviceOf(key: LoginKey): string {
  return `asp-cli ${key.baseUrl}`;
}

function accountOf(key: LoginKey): string {
  return key.handle ?? 'account';
}

const REFUSAL: Record<Exclude<KeyringState, 'unlocked'>, () => RequestError> = {
  locked: () => storeLocked('The keyring is locked.'),
  'no-collection': () => storeUnavailable('There is no default keyring.'),
  'no-service': () => storeUnavailable('No program offers the Secret Service on this session bus.'),
  'no-bus': () => storeUnavailable('There is no session bus, and so no keychain.'),
  silent: () => storeUnavailable('The keychain does not answer.'),
};

async function requireOpenKeyring({ platform, environment, clock }: KeychainOptions): Promise<void> {
  if (platform === 'darwin' || platform === 'win32') return;
  const state = await readKeyringState(environment, clock);
  if (state !== 'unlocked') throw REFUSAL[state]();
}

/** The addon is loaded when it is first needed: without libsecret the import itself fails. */
async function load(): Promise<Keytar> {
  try {
    return (await import('keytar')).default;
  } catch (error) {
    throw storeUnavailable(
      'The keychain library could not be loaded (on Linux it needs libsecret; it has no build for Alpine on ARM).',
      error,
    );
  }
}

async function within<Result>(clock: Clock, timeoutMs: number, work: Promise<Result>): Promise<Result> {
  let stop = (): void => {};
  const late = new Promise<never>((_, reject) => {
    stop = clock.schedule(timeoutMs, () => reject(storeUnavailable('The keychain did not answer in time.')));
  });
  try {
    return await Promise.race([work, late]);
  } catch (error) {
    if (error instanceof RequestError) throw error;
    throw storeUnavailable('The keychain refused the access.', error);
  } finally {
    stop();
  }
}
