import type { Login } from '../../client/credentials/login.js';
import { isRefusedConnection } from '../../client/http/request-error.js';
import { codeOf } from '../../kit/format.js';
import { findServiceAt } from '../profile/local-service.js';
import type { Context } from './context.js';

/**
 * The latest login at a local service, at `baseUrl` if given. It says where the service was: one that stops leaves no
 * record.
 */
export async function findLocalLogin(context: Context, baseUrl?: string): Promise<Login | undefined> {
  const logins = (await (await context.logins()).list(baseUrl)).filter(({ isLocal }) => isLocal === true);
  return logins.sort((left, right) => right.savedAtMs - left.savedAtMs)[0];
}

/** The command that starts the local service whose absence caused an error; undefined if that is not the cause. */
export async function findStartCommand(context: Context, error: unknown): Promise<readonly string[] | undefined> {
  const baseUrl = context.identity().at?.baseUrl;
  const isKnown = codeOf(error) === 'ASP_LOCAL_NOT_RUNNING';
  if (!isKnown && (!isRefusedConnection(error) || baseUrl === undefined || (await doesRunAt(context, baseUrl))))
    return undefined;
  const login = await findLocalLogin(context, baseUrl).catch(() => undefined);
  return login?.localStart ?? (isKnown ? ['asp', 'serve'] : undefined);
}

const doesRunAt = async ({ paths, machine }: Context, baseUrl: string): Promise<boolean> =>
  (await findServiceAt(paths, machine, baseUrl)) !== undefined;
