import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { createSecureContext, type TlsOptions, type Server as TlsServer } from 'node:tls';

import type { Clock } from '../../kit/clock.js';
import { codeOf, messageOf } from '../../kit/format.js';
import { repeat } from '../../kit/repeat.js';
import type { Log } from '../core/context.js';
import { OperatorError } from '../core/errors.js';
import type { Meter } from '../core/meter.js';

/** The PEM files of a service that speaks TLS itself. */
export interface CertificateFiles {
  /** The path of the certificate, followed in that file by those between it and an authority that clients trust. */
  readonly certificate: string;
  /** The path of its key, which has no passphrase. */
  readonly key: string;
}

interface Certificate {
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly expiresAt: number;
}

/** Reads a certificate and its key, and makes sure that clients can use them. */
async function readCertificate(
  files: CertificateFiles,
  hostname: string | undefined,
  clock: Clock,
): Promise<Certificate> {
  const cert = await read(files.certificate);
  const key = await read(files.key);
  const certificate = parse(files.certificate, 'certificate', () => new X509Certificate(cert));
  const privateKey = parse(files.key, 'private key without a passphrase', () => createPrivateKey(key));
  if (!certificate.checkPrivateKey(privateKey))
    throw notUsable(`The key in ${files.key} does not belong to the certificate in ${files.certificate}.`);
  const now = clock.now();
  const expiresAt = Date.parse(certificate.validTo);
  if (now >= expiresAt) throw notUsable(`The certificate in ${files.certificate} expired on ${dateOf(expiresAt)}.`);
  const validFrom = Date.parse(certificate.validFrom);
  if (now < validFrom)
    throw notUsable(`The certificate in ${files.certificate} is not valid before ${dateOf(validFrom)}.`);
  if (hostname !== undefined && !covers(certificate, hostname)) {
    const names = certificate.subjectAltName ?? 'no name';
    throw notUsable(
      `The certificate in ${files.certificate} is for ${names.replaceAll(/(DNS|IP Address):/g, '')}, not for ${hostname}.`,
    );
  }
  try {
    createSecureContext({ cert, key, ciphers: CLIENT_CIPHERS });
  } catch (error) {
    if (isTooShort(error))
      throw notUsable(
        `A key in ${files.certificate} is too short: clients refuse RSA keys of less than 2048 bits.`,
        error,
      );
    throw notUsable(`TLS refuses the certificate in ${files.certificate}: ${messageOf(error)}.`, error);
  }
  return { cert, key, expiresAt };
}

/** What OpenSSL accepts on the side of the client, in current systems and from Node.js 24 on. */
const CLIENT_CIPHERS = 'DEFAULT@SECLEVEL=2';

/** The key of the certificate itself, or of one between it and an authority. */
function isTooShort(error: unknown): boolean {
  return /^ERR_SSL_(EE|CA)_KEY_TOO_SMALL$/.test(codeOf(error));
}

function covers(certificate: X509Certificate, hostname: string): boolean {
  const name = hostname.replace(/^\[(.*)\]$/, '$1');
  // Browsers ignore the subject.
  const found = isIP(name) === 0 ? certificate.checkHost(name, { subject: 'never' }) : certificate.checkIP(name);
  return found !== undefined;
}

async function read(path: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (error) {
    throw notUsable(`Cannot read ${path}: ${messageOf(error)}.`, error);
  }
}

function parse<Parsed>(path: string, what: string, construct: () => Parsed): Parsed {
  try {
    return construct();
  } catch (error) {
    throw notUsable(`${path} contains no ${what} in PEM.`, error);
  }
}

const dateOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

function notUsable(message: string, cause?: unknown): OperatorError {
  return new OperatorError('CERTIFICATE_NOT_USABLE', message, cause);
}

const LOOK_MS = 60_000;

/** The certificate of a service, on each of its addresses that speaks TLS. */
export class ServerCertificate {
  readonly #files: CertificateFiles;
  readonly #hostname: string | undefined;
  readonly #servers: TlsServer[] = [];
  #current: Certificate;

  private constructor(files: CertificateFiles, hostname: string | undefined, current: Certificate) {
    this.#files = files;
    this.#hostname = hostname;
    this.#current = current;
  }

  /**
   * Reads the files.
   *
   * @param hostname The name in the URL that clients use; undefined: only a proxy connects, by whatever name.
   * @throws OperatorError `CERTIFICATE_NOT_USABLE`
   */
  static async read(files: CertificateFiles, hostname: string | undefined, clock: Clock): Promise<ServerCertificate> {
    return new ServerCertificate(files, hostname, await readCertificate(files, hostname, clock));
  }

  /** What a new server starts with. */
  get options(): TlsOptions {
    const { cert, key } = this.#current;
    return { cert, key, minVersion: 'TLSv1.2' };
  }

  /** Gives renewed certificates to this server too. */
  attach(server: TlsServer): void {
    this.#servers.push(server);
  }

  /**
   * Looks once a minute whether the files were replaced, and serves new connections with what they contain. A
   * certificate that clients cannot use is reported, and the one before stays. The returned function stops looking.
   */
  follow({ clock, log, meter }: { clock: Clock; log: Log; meter: Meter }): () => Promise<void> {
    let reported: string | undefined;
    meter.certificateExpires(this.#current.expiresAt);
    const look = async (): Promise<void> => {
      const next = await readCertificate(this.#files, this.#hostname, clock);
      reported = undefined;
      if (next.cert.equals(this.#current.cert) && next.key.equals(this.#current.key)) return;
      this.#current = next;
      for (const server of this.#servers) server.setSecureContext(this.options);
      meter.certificateExpires(next.expiresAt);
      log.info('certificate_renewed', { expires: dateOf(next.expiresAt) });
    };
    const report = (error: unknown): void => {
      const why = messageOf(error);
      if (why !== reported) log.error('certificate_not_renewed', error);
      reported = why;
    };
    return repeat(clock, LOOK_MS, look, report, true);
  }
}
