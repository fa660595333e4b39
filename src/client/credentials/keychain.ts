import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { type Clock, within } from '../../kit/clock.js';
import type { Environment } from '../../kit/environment.js';
import { RequestError } from '../http/request-error.js';
import type { LoginKey } from './login.js';
import { type SecretStore, storeLocked, storeUnavailable } from './secret-store.js';

/** Whether the Secret Service can be used without asking anyone. */
type KeyringState = 'unlocked' | 'locked' | 'no-collection' | 'no-service' | 'no-bus' | 'silent';

const HANDSHAKE_TIMEOUT_MS = 500;
const ANSWER_TIMEOUT_MS = 1500;
const METHOD_RETURN = 2;
const MESSAGE_MAX_BYTES = 1024 * 1024;
const FIELD = { path: 1, interface: 2, member: 3, destination: 6, signature: 8 } as const;
const COLLECTION = '/org/freedesktop/secrets/aliases/default';

interface Call {
  readonly serial: number;
  readonly destination: string;
  readonly path: string;
  readonly interface: string;
  readonly member: string;
  readonly texts: readonly string[];
}

/**
 * Asks the session bus whether the default keyring exists and is open. libsecret itself can wait forever, and then even
 * the exit of the process waits for it. So this check comes first, on our own socket, which can be closed (D-Bus
 * specification: Authentication Protocol, Message Protocol; Secret Service API: Collection.Locked).
 */
async function readKeyringState(environment: Environment, clock: Clock): Promise<KeyringState> {
  const address = busPath(environment);
  if (address === undefined) return 'no-bus';
  const socket = connect(address);
  try {
    const bytes = readBytes(socket, clock);
    const uid = Buffer.from(String(process.getuid?.() ?? 0)).toString('hex');
    socket.write(`\0AUTH EXTERNAL ${uid}\r\n`);
    const greeting = await bytes.until((buffer) => readLine(buffer), HANDSHAKE_TIMEOUT_MS);
    if (greeting === 'silent') return 'silent';
    if (greeting === 'closed' || !greeting.startsWith('OK ')) return 'no-bus';
    socket.write('BEGIN\r\n');
    socket.write(encode(HELLO));
    socket.write(encode(READ_LOCKED));
    const reply = await bytes.until((buffer) => replyTo(READ_LOCKED.serial, buffer), ANSWER_TIMEOUT_MS);
    if (reply === 'silent') return 'silent';
    return reply === 'closed' ? 'no-bus' : reply;
  } finally {
    socket.destroy();
  }
}

const HELLO: Call = {
  serial: 1,
  destination: 'org.freedesktop.DBus',
  path: '/org/freedesktop/DBus',
  interface: 'org.freedesktop.DBus',
  member: 'Hello',
  texts: [],
};

const READ_LOCKED: Call = {
  serial: 2,
  destination: 'org.freedesktop.secrets',
  path: COLLECTION,
  interface: 'org.freedesktop.DBus.Properties',
  member: 'Get',
  texts: ['org.freedesktop.Secret.Collection', 'Locked'],
};

/** The socket of the session bus: a path, or an abstract name on Linux. Other transports are not supported. */
function busPath(environment: Environment): string | undefined {
  const named = environment['DBUS_SESSION_BUS_ADDRESS'];
  if (named === undefined || named === '') {
    const runtime = environment['XDG_RUNTIME_DIR'];
    return runtime === undefined || runtime === '' ? undefined : `${runtime}/bus`;
  }
  for (const address of named.split(';')) {
    const match = /^unix:(?:.*,)?(path|abstract)=([^,]+)/.exec(address);
    if (match !== null) return (match[1] === 'abstract' ? '\0' : '') + decodeURIComponent(match[2] ?? '');
  }
  return undefined;
}

/** Buffers input until `find` finds a complete part; `find` returns the part and its length. */
function readBytes(socket: Socket, clock: Clock) {
  let buffer: Buffer = Buffer.alloc(0);
  let isClosed = false;
  let wake = (): void => {};
  socket.on('data', (chunk) => {
    buffer = Buffer.concat([buffer, chunk]);
    if (buffer.length > MESSAGE_MAX_BYTES) socket.destroy();
    wake();
  });
  socket.on('error', () => wake());
  socket.on('close', () => {
    isClosed = true;
    wake();
  });
  return {
    async until<Found extends string>(
      find: (buffer: Buffer) => Found | number,
      timeoutMs: number,
    ): Promise<Found | 'silent' | 'closed'> {
      let isLate = false;
      const stop = clock.schedule(timeoutMs, () => {
        isLate = true;
        wake();
      });
      try {
        while (true) {
          const found = find(buffer);
          if (typeof found === 'string') return found;
          if (found > 0) {
            buffer = buffer.subarray(found);
            continue;
          }
          if (isClosed) return 'closed';
          if (isLate) return 'silent';
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      } finally {
        stop();
      }
    },
  };
}

function readLine(buffer: Buffer): string | 0 {
  const end = buffer.indexOf('\r\n');
  return end < 0 ? 0 : buffer.toString('latin1', 0, end);
}

/**
 * The verdict of the reply to `serial`; otherwise how many bytes to skip: a message for others, or the rest of a line.
 */
function replyTo(serial: number, buffer: Buffer): KeyringState | number {
  if (buffer.length < 16) return 0;
  if (buffer[0] !== 0x6c && buffer[0] !== 0x42) return buffer.indexOf('\r\n') + 2;
  const isLittle = buffer[0] === 0x6c;
  const read32 = (at: number): number => (isLittle ? buffer.readUInt32LE(at) : buffer.readUInt32BE(at));
  const bodyLength = read32(4);
  const fieldsLength = read32(12);
  const bodyStart = align(16 + fieldsLength, 8);
  if (buffer.length < bodyStart + bodyLength) return 0;
  const fields = buffer.subarray(16, 16 + fieldsLength);
  const mark = Buffer.from([5, 1, 'u'.charCodeAt(0), 0]);
  const at = fields.indexOf(mark);
  if (at < 0 || read32(16 + at + 4) !== serial) return bodyStart + bodyLength;
  if (buffer[1] !== METHOD_RETURN) return parseRefusal(fields.toString('latin1'));
  return read32(bodyStart + 4) === 0 ? 'unlocked' : 'locked';
}

function parseRefusal(fields: string): KeyringState {
  return /UnknownObject|UnknownMethod|NoSuchObject|UnknownInterface/.test(fields) ? 'no-collection' : 'no-service';
}

/** A method call with string arguments, little-endian (D-Bus specification: Message Format). */
function encode(call: Call): Buffer {
  const body = call.texts.reduce((buffer, text) => textAt(buffer, text), Buffer.alloc(0));
  const named: [code: number, type: string, value: string][] = [
    [FIELD.path, 'o', call.path],
    [FIELD.interface, 's', call.interface],
    [FIELD.member, 's', call.member],
    [FIELD.destination, 's', call.destination],
  ];
  let fields = Buffer.alloc(0);
  for (const [code, type, value] of named)
    fields = textAt(Buffer.concat([pad(fields, 8), Buffer.from([code, 1, type.charCodeAt(0), 0])]), value);
  if (call.texts.length > 0) {
    const signature = Buffer.from('s'.repeat(call.texts.length));
    const field = Buffer.from([FIELD.signature, 1, 'g'.charCodeAt(0), 0, signature.length, ...signature, 0]);
    fields = Buffer.concat([pad(fields, 8), field]);
  }
  const head = Buffer.alloc(16);
  head.set([0x6c, 1, 0, 1]);
  head.writeUInt32LE(body.length, 4);
  head.writeUInt32LE(call.serial, 8);
  head.writeUInt32LE(fields.length, 12);
  return Buffer.concat([pad(Buffer.concat([head, fields]), 8), body]);
}

function textAt(buffer: Buffer, text: string): Buffer<ArrayBuffer> {
  const bytes = Buffer.from(text);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(bytes.length);
  return Buffer.concat([pad(buffer, 4), length, bytes, Buffer.alloc(1)]);
}

function pad(buffer: Buffer, to: number): Buffer<ArrayBuffer> {
  return Buffer.concat([buffer, Buffer.alloc(align(buffer.length, to) - buffer.length)]);
}

function align(length: number, to: number): number {
  return Math.ceil(length / to) * to;
}

/** The time limit of the whole keychain probe, in milliseconds. */
const PROBE_TIMEOUT_MS = 3_000;
/** On other systems a person may have to allow the access. */
const CALL_TIMEOUT_MS = 30_000;
/** The maximum on Windows: 2,560 bytes of UTF-16. */
const ITEM_MAX_LENGTH = 1_280;

type Keytar = Pick<typeof import('keytar'), 'getPassword' | 'setPassword' | 'deletePassword'>;

/** Dependencies of the keychain. */
export interface KeychainOptions {
  readonly clock: Clock;
  readonly platform: NodeJS.Platform;
  /** The address of the session bus, on Linux. */
  readonly environment: Environment;
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
    return waitForAnswer(clock, timeoutMs, work(keytar));
  };
  const timeoutMs = options.platform === 'linux' ? PROBE_TIMEOUT_MS : CALL_TIMEOUT_MS;
  return {
    kind: 'keychain',
    async get(key) {
      const secret = await call(timeoutMs, (keytar) => keytar.getPassword(toServiceName(key), toAccountName(key)));
      return secret ?? undefined;
    },
    async set(key, secret) {
      if (secret.length > ITEM_MAX_LENGTH)
        throw storeUnavailable('The login is larger than a keychain item can be. Use the file store.');
      await call(timeoutMs, (keytar) => keytar.setPassword(toServiceName(key), toAccountName(key), secret));
    },
    delete: (key) => call(timeoutMs, (keytar) => keytar.deletePassword(toServiceName(key), toAccountName(key))),
    async probe() {
      const key = { baseUrl: 'probe', handle: `@probe.${randomBytes(6).toString('hex')}` };
      const secret = randomBytes(16).toString('hex');
      const found = await call(PROBE_TIMEOUT_MS, async (keytar) => {
        await keytar.setPassword(toServiceName(key), toAccountName(key), secret);
        const read = await keytar.getPassword(toServiceName(key), toAccountName(key));
        await keytar.deletePassword(toServiceName(key), toAccountName(key));
        return read;
      });
      if (found !== secret) throw storeUnavailable('The keychain did not return the value that was stored in it.');
    },
  };
}

function toServiceName(key: LoginKey): string {
  return `asp-cli ${key.baseUrl}`;
}

function toAccountName(key: LoginKey): string {
  return key.handle ?? 'account';
}

const REFUSAL: Record<Exclude<KeyringState, 'unlocked'>, () => RequestError> = {
  locked: () => storeLocked('The keyring is locked.'),
  'no-collection': () => storeUnavailable('There is no default keyring.'),
  'no-service': () => storeUnavailable('No program on this session bus provides the Secret Service.'),
  'no-bus': () => storeUnavailable('There is no session bus, so there is no keychain.'),
  silent: () => storeUnavailable('The keychain does not respond.'),
};

async function requireOpenKeyring({ platform, environment, clock }: KeychainOptions): Promise<void> {
  if (platform === 'darwin' || platform === 'win32') return;
  const state = await readKeyringState(environment, clock);
  if (state !== 'unlocked') throw REFUSAL[state]();
}

/** The addon is loaded on first use: without libsecret the import itself fails. */
async function load(): Promise<Keytar> {
  try {
    return (await import('keytar')).default;
  } catch (error) {
    throw storeUnavailable(
      'asp could not load the keychain library (an optional package, which needs libsecret on Linux and has no build for Alpine on ARM).',
      error,
    );
  }
}

async function waitForAnswer<Result>(clock: Clock, timeoutMs: number, work: Promise<Result>): Promise<Result> {
  try {
    return await within(clock, timeoutMs, work, () => {
      throw storeUnavailable('The keychain did not respond in time.');
    });
  } catch (error) {
    if (error instanceof RequestError) throw error;
    throw storeUnavailable('The keychain denied access.', error);
  }
}
