import { closeSync, constants, fstatSync, openSync, readFileSync, realpathSync, type Stats } from 'node:fs';

import { isFileError } from '../../kit/private-file.js';
import { readWebhookSecret } from '../../kit/webhook.js';
import { CliError, usageError } from '../errors.js';

const READ_MAX_BYTES = 64 * 1024;
const ROOT = 0;

/**
 * The secret in the file that the environment or an option names: a private file, or one that the administrator of this machine has
 * mounted. Links are followed, because Kubernetes presents secrets as links (D-207).
 */
export function readSecretFile(
  path: string,
  { name, code }: { readonly name: string; readonly code: 'ASP_NO_CREDENTIAL' | 'ASP_USAGE' },
): string {
  const refuse = (what: string, why?: string, cause?: unknown): CliError =>
    new CliError(code, { message: `${path} (${name}) ${what}.`, why, cause });
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    if (isFileError(error, 'ENOENT', 'ENOTDIR', 'ELOOP')) throw refuse('does not exist', undefined, error);
    if (isFileError(error, 'EACCES', 'EPERM')) throw refuse('cannot be read by this user', undefined, error);
    throw error;
  }
  try {
    const state = fstatSync(file);
    if (!state.isFile() || state.size > READ_MAX_BYTES)
      throw refuse('is not used', 'it is not a regular file, or it is too large.');
    const danger = describeExposure(state);
    if (danger !== undefined && !isMountedReadOnly(file)) throw refuse('is not used', danger);
    const secret = readFileSync(file, 'utf8').trim();
    if (secret === '') throw refuse('contains no secret');
    return secret;
  } finally {
    closeSync(file);
  }
}

/** The secret of a webhook and its key, in the private file that an option names. */
export function readWebhookSecretFile(path: string, option: string): { readonly secret: string; readonly key: Buffer } {
  const secret = readSecretFile(path, { name: option, code: 'ASP_USAGE' });
  const key = readWebhookSecret(secret);
  if (key !== undefined) return { secret, key };
  throw usageError(`${path} (${option}) contains no webhook secret.`, {
    why: 'a secret is 24 to 64 bytes in base64, such as the output of openssl rand -base64 32. It may begin with whsec_.',
  });
}

/**
 * Whether anyone else could have written or can read the file. A group may read a file of root's, because root decides
 * who is in the group.
 */
function describeExposure({ uid, mode }: Stats): string | undefined {
  const me = process.getuid?.();
  if (me === undefined) return undefined;
  if (uid !== me && uid !== ROOT) return 'it belongs to another user.';
  const others = uid === ROOT ? 0o037 : 0o077;
  return (mode & others) === 0
    ? undefined
    : 'other users can read or write it. Run chmod 600 on it, or mount it read-only.';
}

/**
 * Whether an open file is on a read-only mount: an orchestrator provides it, and its mode does not matter. Only Linux
 * can tell.
 */
function isMountedReadOnly(file: number): boolean {
  let path: string;
  let mounts: string;
  try {
    path = realpathSync(`/proc/self/fd/${file}`);
    mounts = readFileSync('/proc/self/mountinfo', 'utf8');
  } catch {
    return false;
  }
  let found = { point: '', isReadOnly: false };
  for (const line of mounts.split('\n')) {
    // The fifth word is the mount point, the sixth the options (proc_pid_mountinfo(5)).
    const [, , , , escaped = '', options = ''] = line.split(' ');
    const point = escaped.replace(/\\([0-7]{3})/g, (_, octal: string) =>
      String.fromCharCode(Number.parseInt(octal, 8)),
    );
    const isAbove = point === path || path.startsWith(point.endsWith('/') ? point : `${point}/`);
    // Of several mounts at one point, the last covers the others.
    if (point !== '' && isAbove && point.length >= found.point.length)
      found = { point, isReadOnly: options.split(',').includes('ro') };
  }
  return found.isReadOnly;
}
