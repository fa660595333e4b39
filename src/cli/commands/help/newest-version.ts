import { secureUrl } from '../../../client/http/address.js';
import { RequestError } from '../../../client/http/request-error.js';
import type { HttpAnswer } from '../../../client/http/transport.js';
import type { Context } from '../../context/context.js';
import { CliError, type OwnErrorCode } from '../../terminal/cli-error.js';
import { isNewerVersion, isVersion } from './compare-versions.js';

const REGISTRY = 'https://registry.npmjs.org/';
const PATIENCE_MS = 5_000;
const ANSWER_MAX_BYTES = 4 * 1024 * 1024;

export interface Newest {
  readonly newest: string;
  /** Newer than this program. */
  readonly isNewer: boolean;
  /** Who said so. */
  readonly registry: string;
}

/**
 * What the npm registry calls the latest version: the one that npm itself would ask.
 * @throws CliError `ASP_UNREACHABLE` after 5 seconds without an answer, `ASP_BAD_ANSWER`
 */
export async function askNewest(context: Context): Promise<Newest> {
  const { environment, version } = context;
  const said = environment['npm_config_registry'] || environment['NPM_CONFIG_REGISTRY'] || REGISTRY;
  const registry = secureUrl(said, 'npm registry').href.replace(/\/*$/, '/');
  const { status, body } = await ask(context, `${registry}asp-cli/latest`, registry);
  const newest = status === 200 ? versionIn(body) : undefined;
  if (newest === undefined)
    throw failure(
      context,
      'ASP_BAD_ANSWER',
      `${registry} did not tell the newest version of asp-cli (HTTP ${status}).`,
    );
  return { newest, isNewer: isNewerVersion(newest, version), registry };
}

async function ask({ transport, signal, version }: Context, url: string, registry: string): Promise<HttpAnswer> {
  const patience = AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)]);
  try {
    return await (await transport()).send({
      method: 'GET',
      url,
      headers: { accept: 'application/json' },
      signal: patience,
      maxBytes: ANSWER_MAX_BYTES,
    });
  } catch (error) {
    if (signal.aborted || !(error instanceof RequestError)) throw error;
    if (error.code === 'ASP_BAD_ANSWER' || error.code === 'ASP_TLS') throw error;
    throw failure({ version }, 'ASP_UNREACHABLE', `The npm registry at ${registry} could not be reached.`, error);
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
