import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { join } from 'node:path';

/** The files of a certificate and its key. */
export interface Certificate {
  readonly certificate: string;
  readonly key: string;
}

/** A certificate authority that no machine trusts by default. */
export interface Authority {
  /** The file with the authority's certificate. */
  readonly file: string;
  /** The name may be an address. */
  issue(name: string, options?: { readonly isExpired?: boolean }): Certificate;
}

function openssl(...words: readonly string[]): void {
  const { status, stderr } = spawnSync('openssl', words, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`openssl ${words[0]}: ${stderr}`);
}

const KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

/** Creates an authority in `folder`. Requires `openssl`. */
export function createAuthority(folder: string): Authority {
  const file = join(folder, 'authority.pem');
  const authorityKey = join(folder, 'authority.key');
  openssl('req', '-x509', ...KEY, '-keyout', authorityKey, '-out', file, '-days', '30', '-subj', '/CN=test authority');
  let count = 0;
  return {
    file,
    issue(name, { isExpired = false } = {}) {
      count += 1;
      const path = (ending: string): string => join(folder, `${count}-${name}.${ending}`);
      openssl('req', '-new', ...KEY, '-keyout', path('key'), '-out', path('csr'), '-subj', `/CN=${name}`);
      writeFileSync(path('ext'), `subjectAltName=${isIP(name) === 0 ? 'DNS' : 'IP'}:${name}\n`);
      const signing = ['-CA', file, '-CAkey', authorityKey, '-CAcreateserial', '-extfile', path('ext')];
      // With a negative lifetime, the certificate has always expired.
      const days = isExpired ? '-1' : '30';
      openssl('x509', '-req', '-in', path('csr'), ...signing, '-out', path('pem'), '-days', days);
      return { certificate: path('pem'), key: path('key') };
    },
  };
}
