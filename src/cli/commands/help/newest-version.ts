import { secureUrl } from '../../../client/http/address.js';
import { RequestError } from '../../../client/http/request-error.js';
import type { HttpAnswer } from '../../../client/http/transport.js';
import { abortAfter } from '../../../kit/clock.js';
import type { Context } from '../../context/context.js';
import { CliError, type OwnErrorCode } from '../../errors.js';

const REGISTRY = 'https://registry.npmjs.org/';
const PATIENCE_MS = 5_000;
const ANSWER_MAX_BYTES = 4 * 1024 * 1024;

export interface Newest {
  readonly newest: string;
  /** Newer than this program. */
  readonly isNewer: boolean;
  /** The registry that answered. */
  readonly registry: string;
}

/**
 * The latest version according to the npm registry that npm itself would ask.
 * @throws CliError `ASP_UNREACHABLE` after 5 seconds without an answer, `ASP_BAD_ANSWER`
 */
export async function askNewest(context: Context): Promise<Newest> {
  const { environment, version } = context;
  const configured = environment['npm_config_registry'] || environment['NPM_CONFIG_REGISTRY'] || REGISTRY;
  const registry = secureUrl(configured, 'npm registry').href.replace(/\/*$/, '/');
  const { status, body } = await ask(context, `${registry}asp-cli/latest`, registry);
  const newest = status === 200 ? versionIn(body) : undefined;
  if (newest === undefined)
    throw failure(
      context,
      'ASP_BAD_ANSWER',
      `Could not find out the latest version of asp-cli: ${registry} answered HTTP ${status}.`,
    );
  return { newest, isNewer: isNewerVersion(newest, version), registry };
}

async function ask({ clock, transport, signal, version }: Context, url: string, registry: string): Promise<HttpAnswer> {
  const send = async (patience: AbortSignal): Promise<HttpAnswer> =>
    (await transport()).send({
      method: 'GET',
      url,
      headers: { accept: 'application/json' },
      signal: patience,
      maxBytes: ANSWER_MAX_BYTES,
    });
  try {
    return await abortAfter(clock, PATIENCE_MS, () => new Error('no answer in time'), send, signal);
  } catch (error) {
    if (signal.aborted || !(error instanceof RequestError)) throw error;
    if (error.code === 'ASP_BAD_ANSWER' || error.code === 'ASP_TLS') throw error;
    throw failure({ version }, 'ASP_UNREACHABLE', `Could not reach the npm registry at ${registry}.`, error);
  }
}

function failure({ version }: { version: string }, code: OwnErrorCode, message: string, cause?: Error): CliError {
  return new CliError(code, { message, why: `this is asp ${version}; nothing else needs the registry.`, cause });
}

function versionIn(body: Buffer): string | undefined {
  try {
    const { version } = JSON.parse(body.toString('utf8')) as { version?: unknown };
    return typeof version === 'string' && isVersion(version) ? version : undefined;
  } catch {
    return undefined;
  }
}

/** `1.2.3`, `1.2.3-beta.1`, either with `+build` (Semantic Versioning 2.0.0 §2, §9, §10). */
const VERSION = /^(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$/;

function isVersion(text: string): boolean {
  return text.length <= 64 && VERSION.test(text);
}

/** Whether `one` has precedence over `other`; an invalid version has none (Semantic Versioning 2.0.0 §11). */
export function isNewerVersion(one: string, other: string): boolean {
  const [left, right] = [VERSION.exec(one), VERSION.exec(other)];
  if (left === null || right === null) return false;
  for (const part of [1, 2, 3]) {
    const difference = Number(left[part]) - Number(right[part]);
    if (difference !== 0) return difference > 0;
  }
  return comparePreRelease(left[4], right[4]) > 0;
}

/** A release is after its pre-releases. */
function comparePreRelease(one: string | undefined, other: string | undefined): number {
  if (one === undefined || other === undefined) return Number(one === undefined) - Number(other === undefined);
  const [left, right] = [one.split('.'), other.split('.')];
  for (let at = 0; at < Math.min(left.length, right.length); at += 1) {
    const difference = compareIdentifier(left[at] ?? '', right[at] ?? '');
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

/** Numbers are before words. */
function compareIdentifier(one: string, other: string): number {
  const areNumbers = [one, other].map((text) => /^\d+$/.test(text));
  if (areNumbers[0] === true && areNumbers[1] === true) return Number(one) - Number(other);
  if (areNumbers[0] !== areNumbers[1]) return areNumbers[0] === true ? -1 : 1;
  return one === other ? 0 : one < other ? -1 : 1;
}
