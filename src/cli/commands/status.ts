import { command } from '../command.js';
import { credentialKind, describeSource } from '../context/build-credential.js';
import type { Context } from '../context/context.js';
import { loginsAt } from '../context/login-place.js';
import { CliError } from '../errors.js';

const PATIENCE_MS = 600;

export const status = command({
  path: 'status',
  summary: 'service, agent and sign-in at a glance, within a second',
  details: 'Safe in hooks and prompts: it asks nobody anything, renews nothing and exits 0 whatever it finds.',
  options: [{ flags: '--offline', about: 'do not look whether the service answers' }],
  examples: [
    { line: 'asp status', about: 'a few lines' },
    { line: "asp status --offline --json | jq -r '.agent'", about: 'for a prompt' },
  ],
  effect: 'read',
  stdout: 'the service, the agent and what is wrong, a line each',
  parse: (args) => ({ isOffline: args.flag('offline') }),
  // It never fails for what it finds, so that it is safe in a hook or a prompt.
  async run(context, { isOffline }) {
    const local = await context.localService();
    const found = await lookAround(context);
    const reachable = isOffline || found.base_url === null ? null : await isReachable(context, found.base_url);
    const facts: Status = { ...found, local_service: local?.url ?? null, reachable };
    await context.output.document(facts, (safe, style) =>
      [
        `profile  ${safe.profile ?? style.yellow('none')}${safe.base_url === null || safe.base_url === safe.profile ? '' : ` (${safe.base_url})`}`,
        `agent    ${safe.agent === null ? style.yellow('not signed in') : `${safe.agent}${style.dim(` by ${safe.source}`)}`}`,
        ...(safe.reachable === null
          ? []
          : [`service  ${safe.reachable ? style.green('answers') : style.red('does not answer')}`]),
        ...(safe.local_service === null ? [] : [`local    runs at ${safe.local_service}`]),
        ...(safe.problem === null ? [] : [style.yellow(safe.problem)]),
      ].join('\n'),
    );
  },
});

/** What stands on this machine, and whether the service answers. It asks no keychain and renews no token. */
interface Status {
  readonly profile: string | null;
  readonly base_url: string | null;
  readonly agent: string | null;
  readonly source: string | null;
  /** Null where it is not known without asking: a token or client of the environment. */
  readonly signed_in: boolean | null;
  readonly local_service: string | null;
  readonly reachable: boolean | null;
  /** Why there is no profile or agent. */
  readonly problem: string | null;
}

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
    const problem = isGood ? null : `Nobody is signed in as ${handle}: asp login ${handle}`;
    return { ...known, signed_in: isGood, problem };
  } catch (error) {
    if (error instanceof CliError) return { ...known, problem: error.message };
    return { ...known, problem: error instanceof Error ? error.message : String(error) };
  }
}

/** Any answer below 500 will do: it is there. */
async function isReachable(context: Context, baseUrl: string): Promise<boolean> {
  const signal = AbortSignal.any([context.signal, AbortSignal.timeout(PATIENCE_MS)]);
  try {
    const transport = await context.transport();
    const answer = await transport.send({
      method: 'GET',
      url: `${baseUrl}/agents/me`,
      isRedirectAnAnswer: true,
      signal,
    });
    return answer.status < 500;
  } catch {
    return false;
  }
}
