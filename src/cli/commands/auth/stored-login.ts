import type { Login } from '../../../client/credentials/login.js';
import type { Context } from '../../context/context.js';
import { resolveAgent } from '../../profile/resolve-agent.js';
import { CliError } from '../../terminal/cli-error.js';

/** The base URL of the service a command is about; undefined when none is chosen, or when it is the local one and that does not run. */
export async function findServiceUrl(context: Context): Promise<string | undefined> {
  // What is broken in a file is told; that no service is chosen is an answer.
  await Promise.all([context.config(), context.projectFile()]);
  const isNamed = context.globals.profile !== undefined || (context.environment['ASP_PROFILE'] ?? '') !== '';
  try {
    return (await context.profile()).baseUrl;
  } catch (error) {
    const isAnswer =
      error instanceof CliError &&
      (error.code === 'ASP_LOCAL_NOT_RUNNING' || (error.code === 'ASP_CONFIG' && !isNamed));
    if (isAnswer) return undefined;
    throw error;
  }
}

/** The stored login of the agent that the words or the usual layers name; credentials of the environment do not count. */
export async function requireStoredLogin(context: Context, handle: string | undefined): Promise<Login> {
  const profile = await context.profile();
  const { globals, environment, projectFile } = context;
  const logins = await context.logins();
  const storedHandles = async (): Promise<string[]> =>
    (await logins.list(profile.baseUrl)).flatMap((login) => (login.handle === null ? [] : [login.handle]));
  const sources = { flag: handle ?? globals.as, environment, profile, projectFile, storedHandles };
  const agent = await resolveAgent(sources, 'stored');
  const login = await logins.find({ baseUrl: profile.baseUrl, handle: agent.handle ?? null });
  if (login !== undefined) return login;
  throw notSignedIn(agent.handle, profile.baseUrl);
}

export function notSignedIn(handle: string | undefined, baseUrl?: string): CliError {
  return new CliError('ASP_NO_CREDENTIAL', {
    message: `Nobody is signed in${handle === undefined ? '' : ` as ${handle}`}${baseUrl === undefined ? ' here' : ` at ${baseUrl}`}.`,
    next: ['asp', 'auth', 'status'],
  });
}
