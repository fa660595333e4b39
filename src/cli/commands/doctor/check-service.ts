import { RequestError } from '../../../client/client.js';
import { inspectLogin } from '../../../client/credentials/inspect-login.js';
import { discoverFor } from '../../../client/credentials/login-context.js';
import { openLogins } from '../../../client/credentials/open-logins.js';
import { credentialKind } from '../../context/build-credential.js';
import type { Context } from '../../context/context.js';
import { loginContextOf, loginsAt } from '../../context/login-place.js';
import { CliError } from '../../terminal/cli-error.js';
import { type Finding, ok, problem, reasonOf, warning } from './finding.js';

const CLOCK_TOLERANCE_MS = 30_000;

/** The service that is chosen, what it publishes, and its clock. */
export async function checkService(context: Context): Promise<readonly Finding[]> {
  let baseUrl: string;
  try {
    const profile = await context.profile();
    baseUrl = profile.baseUrl;
  } catch (error) {
    const next = error instanceof CliError ? error.next : undefined;
    return [problem('profile', reasonOf(error), next)];
  }
  const findings = [ok('profile', `${(await context.profile()).name} (${baseUrl})`)];
  try {
    const { issuer } = await discoverFor(await loginContextOf(context), baseUrl, {
      isForced: true,
      retries: 0,
      signal: context.signal,
    });
    findings.push(ok('service', `answers; it signs in at ${issuer}`));
    findings.push(await checkClock(context, baseUrl));
  } catch (error) {
    const code = error instanceof RequestError || error instanceof CliError ? error.code : undefined;
    findings.push(problem('service', reasonOf(error), code === undefined ? undefined : ['asp', 'explain', code]));
  }
  return findings;
}

/** A token's lifetime is counted by this machine; certificates are valid by it too. */
async function checkClock(context: Context, baseUrl: string): Promise<Finding> {
  const transport = await context.transport();
  const { headers } = await transport.send({ method: 'GET', url: `${baseUrl}/agents/me`, signal: context.signal });
  const told = Date.parse(headers['date'] ?? '');
  const apartMs = Math.abs(told - context.clock.now());
  if (Number.isNaN(told)) return ok('clock', 'the service does not tell its own');
  return apartMs <= CLOCK_TOLERANCE_MS
    ? ok('clock', 'agrees with the service')
    : warning('clock', `is ${Math.round(apartMs / 1000)} s apart from the service's`);
}

/** Where logins are kept, and what has become of those for this service. */
export async function checkLogins(context: Context): Promise<readonly Finding[]> {
  const kind = await context.profile().then(
    (profile) => credentialKind(context.environment, profile),
    () => 'login' as const,
  );
  if (kind !== 'login')
    return [ok('sign-in', `not needed: the credential is ${kind === 'command' ? 'a command' : 'in the environment'}`)];
  try {
    const loginContext = await loginContextOf(context);
    await openLogins(loginContext).probe();
    const findings = [
      ok('store', loginContext.kind === 'keychain' ? 'the keychain works' : 'a file that only you can read'),
    ];
    const baseUrl = await context.profile().then(
      (profile) => profile.baseUrl,
      () => undefined,
    );
    if (baseUrl === undefined) return findings;
    const logins = await loginsAt(context, baseUrl);
    if (logins.length === 0) findings.push(warning('sign-in', 'nobody is signed in at this service', ['asp', 'login']));
    for (const login of logins) {
      const { state } = await inspectLogin(loginContext, login);
      const who = login.handle ?? 'the account';
      const again = ['asp', 'login', ...(login.handle === null ? [] : [login.handle])];
      findings.push(state === 'signed_in' ? ok('sign-in', who) : problem('sign-in', `${who}: ${state}`, again));
    }
    return findings;
  } catch (error) {
    return [problem('store', reasonOf(error), ['asp', 'login', '--store', 'file'])];
  }
}
