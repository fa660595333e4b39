import type { HttpAnswer } from '../../client/http/transport.js';
import { abortAfter } from '../../kit/clock.js';
import { messageOf } from '../../kit/format.js';
import { command } from '../command.js';
import { credentialKind, describeSource } from '../context/build-credential.js';
import type { Context } from '../context/context.js';
import { loginsAt } from '../context/login-store.js';
import { CliError } from '../errors.js';
import type { OutputOf } from './schema/output-shapes.js';

const PATIENCE_MS = 600;

export const status = command({
  path: 'status',
  summary: 'show service, agent and login at a glance, within a second',
  details: 'Safe in hooks and prompts: it never prompts, renews nothing, and exits with 0 whatever it finds.',
  options: [{ flags: '--offline', about: 'do not check whether the service responds' }],
  examples: [
    { line: 'asp status', about: 'a few lines' },
    { line: "asp status --offline --json | jq -r '.agent'", about: 'for a prompt' },
  ],
  effect: 'read',
  stdout: 'the service, the agent and any problems, one per line',
  parse: (args) => ({ isOffline: args.flag('offline') }),
  // It never fails because of its findings, so that it is safe in a hook or a prompt.
  async run(context, { isOffline }) {
    const local = await context.localService();
    const found = await lookAround(context);
    const reachable = isOffline || found.base_url === null ? null : await isReachable(context, found.base_url);
    const facts: Status = { ...found, local_service: local?.url ?? null, reachable };
    await context.output.document(facts, (safe, style) =>
      [
        `profile  ${safe.profile ?? style.yellow('none')}${safe.base_url === null || safe.base_url === safe.profile ? '' : ` (${safe.base_url})`}`,
        `agent    ${safe.agent === null ? style.yellow('not signed in') : `${safe.agent}${style.dim(` (${safe.source})`)}`}`,
        ...(safe.reachable === null
          ? []
          : [`service  ${safe.reachable ? style.green('answers') : style.red('does not respond')}`]),
        ...(safe.local_service === null ? [] : [`local    running at ${safe.local_service}`]),
        ...(safe.problem === null ? [] : [style.yellow(safe.problem)]),
      ].join('\n'),
    );
  },
});

/** The state of this machine, and whether the service responds. It does not open the keychain or renew tokens. */
type Status = OutputOf<'status'>;

async function lookAround(context: Context): Promise<Omit<Status, 'local_service' | 'reachable'>> {
  let known: Omit<Status, 'local_service' | 'reachable' | 'problem'> = {
    profile: null,
    base_url: null,
    agent: null,
    source: null,
    signed_in: null,
  };
  try {
    const profile = await context.profile();
    const source = describeSource(context.environment, profile);
    known = { ...known, profile: profile.name, base_url: profile.baseUrl, source };
    const isLogin = credentialKind(context.environment, profile) === 'login';
    if (isLogin) known = { ...known, signed_in: false };
    const { handle = null } = await context.agent();
    known = { ...known, agent: handle };
    if (!isLogin) return { ...known, problem: null };
    const login = (await loginsAt(context, profile.baseUrl)).find((one) => one.handle === handle);
    const isGood = login !== undefined && login.ended === null;
    const problem = isGood ? null : `Not signed in as ${handle}: asp login ${handle}`;
    return { ...known, signed_in: isGood, problem };
  } catch (error) {
    if (error instanceof CliError) return { ...known, problem: error.message };
    return { ...known, problem: messageOf(error) };
  }
}

/** Any answer below 500 shows that the service is there. */
async function isReachable(context: Context, baseUrl: string): Promise<boolean> {
  const ask = async (signal: AbortSignal): Promise<HttpAnswer> => {
    const transport = await context.transport();
    return transport.send({ method: 'GET', url: `${baseUrl}/agents/me`, isRedirectAnAnswer: true, signal });
  };
  try {
    const late = (): Error => new Error('no answer in time');
    return (await abortAfter(context.clock, PATIENCE_MS, late, ask, context.signal)).status < 500;
  } catch {
    return false;
  }
}
