import { existsSync } from 'node:fs';
import { wait } from '../../kit/clock.js';
import { newWebhookSecret } from '../../kit/webhook.js';
import { splitHandle } from '../../wire/handle.js';
import { WEBHOOK_TIMEOUT_MS } from '../../wire/limit.js';
import type { Webhook } from '../../wire/schemas/agent.js';
import { type Argument, command, type Option } from '../command.js';
import { ACCOUNT_ACTOR, BY_ACCOUNT, callAsAccount } from '../context/account.js';
import { printRequest } from '../context/calls.js';
import type { Context } from '../context/context.js';
import { type ErrorContext, unknownAgent } from '../context/explain.js';
import { CliError, usageError } from '../errors.js';
import { factLine } from '../terminal/fact-line.js';
import { isoTime } from '../terminal/relative-time.js';
import type { OutputStream } from '../terminal/streams.js';
import type { Style } from '../terminal/style.js';
import { ifGiven, readHandle } from '../values.js';

const AGENT = {
  usage: '[handle]',
  about: 'one of the agents of the account (default: the acting agent)',
} as const satisfies Argument;
/** How often the service is asked about the test, and for how long: a little longer than the receiver may take. */
const POLL_MS = 500;
const TEST_MAX_MS = WEBHOOK_TIMEOUT_MS + 5_000;

const readAgent = (text: string | undefined): string | undefined => ifGiven(text, readHandle);

async function findAgent(context: Context, named: string | undefined) {
  const handle = named ?? (await context.actingHandle());
  const about = unknownAgent(handle, {
    FEATURE_NOT_AVAILABLE: 'This service calls no webhooks.',
    ASP_NOT_OFFERED: 'The service offers no webhooks.',
  });
  const errorContext: ErrorContext = {
    ...about,
    reasons: {
      ...about.reasons,
      FEATURE_NOT_AVAILABLE:
        'its operator can turn them on with asp serve --webhooks public. asp tail --forward posts events from this machine.',
    },
    next: { ...about.next, ASP_NOT_OFFERED: ['asp', 'tail', '--help'] },
  };
  return { handle, path: splitHandle(handle), errorContext };
}

/** Null: the agent has none. */
async function readWebhook(context: Context, { path, errorContext }: Awaited<ReturnType<typeof findAgent>>) {
  return (await callAsAccount(context, 'getWebhook', { path }, errorContext)).reply.webhook;
}

export const webhookShow = command({
  path: 'webhook show',
  summary: "show an agent's webhook, and whether its calls succeed",
  details: BY_ACCOUNT,
  arguments: [AGENT],
  examples: [
    { line: 'asp webhook show', about: "the acting agent's webhook" },
    { line: "asp webhook show alice.bot --json | jq -r '.status'", about: 'new, on, failing or off' },
  ],
  effect: 'read',
  stdout: 'the webhook, one fact per line',
  parse: (args) => ({ named: readAgent(args.argument('handle')) }),
  async run(context, { named }) {
    const agent = await findAgent(context, named);
    const webhook = await readWebhook(context, agent);
    await print(context, agent.handle, webhook);
    if (webhook === null) await context.output.note(`${agent.handle} has no webhook.`);
  },
});

type Shown = { readonly handle: string; readonly secret: string | null } & (
  | Webhook
  | { readonly url: null; readonly status: null }
);

async function print(
  { output, streams }: Context,
  handle: string,
  webhook: Webhook | null,
  secret: string | null = null,
): Promise<void> {
  const shown: Shown = { handle, ...(webhook ?? { url: null, status: null }), secret };
  await output.document(shown, (safe, style) => describe(safe, style, streams.stdout));
}

function describe(shown: Shown, style: Style, stdout: OutputStream): string {
  if (shown.url === null) return '';
  const { status, url, failure, failing_since: since, next_try_at: next, answered_at: answered, secret } = shown;
  const paint = status === 'on' ? style.green : status === 'new' ? style.dim : style.red;
  const line = (title: string, text: string | null): string[] => (text === null ? [] : [factLine(stdout, title, text)]);
  const time = (at: number | null): string | null => (at === null ? null : isoTime(at));
  return [
    ...line('agent', shown.handle),
    ...line('url', url),
    ...line('status', paint(status)),
    ...line('answered', time(answered)),
    ...line('failure', failure),
    ...line('since', time(since)),
    ...line('next try', time(next)),
    ...line('secret', secret),
  ].join('\n');
}

const SECRET_OPTIONS = [
  {
    flags: '--signing-secret-file <path>',
    about: 'sign with the secret in this private file; if it does not exist, create it with a new secret',
  },
  { flags: '--new-secret', about: 'replace the secret with a new one' },
] as const satisfies readonly Option[];

export const webhookSet = command({
  path: 'webhook set',
  summary: "have the service post an agent's events to a URL while the agent has no connection",
  details: [
    BY_ACCOUNT,
    '',
    'The service sends each event that someone else caused as one POST with the event as JSON: in order within a session,',
    'and at least once. A status from 200 to 299 within 10 seconds means that the event was delivered. After anything',
    'else, the service tries again, waiting longer each time, for a day. After that, or at once after a status of 410, the',
    'webhook is off until you set or test it again. Until then, events wait.',
    '',
    'A session begins with an invitation (session.invited); its messages follow once the agent has joined. The receiver',
    'joins and replies like any other program: with asp or the API, and a client of the agent (asp help environment).',
    '',
    'Until the receiver has answered a test (type webhook.test), the service sends nothing else. The headers webhook-id,',
    'webhook-timestamp and webhook-signature follow Standard Webhooks, whose libraries check them with the secret.',
    'webhook-id is the id of the event, and stays the same if the event is sent again. x-asp-agent names the agent.',
    'To develop a receiver without a public address, use asp tail --not-me --forward: it sends such requests from your',
    'machine, without a test.',
    '',
    'The first time, it creates a secret and prints it once, unless you name a file with --signing-secret-file. After that,',
    'the secret stays the same.',
  ].join('\n'),
  arguments: [
    { usage: '<url>', about: 'an https address on the public internet, unless the service allows more' },
    AGENT,
  ],
  options: SECRET_OPTIONS,
  examples: [
    { line: 'asp webhook set https://example.org/asp alice.bot', about: 'prints the new secret' },
    { line: 'asp webhook set https://example.org/asp --signing-secret-file hook.secret', about: 'for a script' },
  ],
  effect: 'write',
  stdout: 'the webhook, one fact per line, with the secret if it is new',
  parse(args) {
    args.refuseBoth('signing-secret-file', 'new-secret');
    const url = args.argument('url');
    if (!URL.canParse(url))
      throw usageError(`'${url}' is not a URL.`, {
        why: 'a URL begins with https://, such as https://example.org/asp.',
        next: ['asp', 'webhook', 'set', '--help'],
      });
    const secretFile = args.text('signing-secret-file');
    if (secretFile === '-')
      throw usageError('--signing-secret-file needs the path of a file; it cannot be standard input.');
    return {
      url,
      named: readAgent(args.argument('handle')),
      secretFile,
      isNew: args.flag('new-secret'),
    };
  },
  async run(context, { url, named, secretFile, isNew }) {
    const agent = await findAgent(context, named);
    const { path, errorContext } = agent;
    const isFirst = (await readWebhook(context, agent)) === null;
    const makes = secretFile === undefined ? isNew || isFirst : !existsSync(secretFile);
    const known = secretFile === undefined || makes ? undefined : await readSecret(secretFile);
    if (context.globals.isDryRun) {
      const shown = makes ? '(a new secret)' : known && `(the secret in ${secretFile})`;
      const body = { url, ...(shown !== undefined && { secret: shown }) };
      return printRequest(context, 'setWebhook', { path, body }, ACCOUNT_ACTOR);
    }
    const made = makes ? newWebhookSecret() : undefined;
    if (made !== undefined && secretFile !== undefined) await writeSecret(context, secretFile, made);
    const secret = made ?? known;
    const body = { url, ...(secret !== undefined && { secret }) };
    const { reply } = await callAsAccount(context, 'setWebhook', { path, body }, errorContext);
    if (secret === undefined) await context.output.note('The secret stays the same. For a new one, add --new-secret.');
    await printTested(context, agent, reply.webhook, secretFile === undefined ? made : undefined);
  },
});

async function writeSecret({ output }: Context, path: string, secret: string): Promise<void> {
  const { writePrivateFile } = await import('../../kit/private-file.js');
  await writePrivateFile(path, `${secret}\n`);
  await output.note(`Wrote a new secret to ${path}.`);
}

async function readSecret(path: string): Promise<string> {
  const { readWebhookSecretFile } = await import('../context/client-secret.js');
  return readWebhookSecretFile(path, '--signing-secret-file').secret;
}

/** Waits for the outcome of the test of a webhook that was just set, and prints it. */
async function printTested(
  context: Context,
  agent: Awaited<ReturnType<typeof findAgent>>,
  set: Webhook | null,
  secret?: string,
): Promise<void> {
  const { clock, output, signal } = context;
  const endsAt = clock.monotonic() + TEST_MAX_MS;
  let webhook = set;
  let isPaused = false;
  try {
    isPaused = webhook?.status === 'new' && (await isAgentPaused(context, agent));
    while (!isPaused && webhook?.status === 'new' && clock.monotonic() < endsAt) {
      await wait(clock, POLL_MS, signal);
      webhook = await readWebhook(context, agent);
    }
  } finally {
    // Even if the wait is cut short: the service has the secret now, and never shows it.
    await print(context, agent.handle, webhook, secret ?? null);
    if (secret !== undefined) await output.note('The secret is not shown again.');
  }
  if (webhook?.status === 'on') return output.note('The receiver answered a test.');
  throw new CliError('ASP_PARTIAL', {
    ...describeUntested(webhook, isPaused),
    outcome: 'applied',
    next: isPaused ? ['asp', 'agent', 'update', agent.handle, '--resume'] : testAgain(agent.handle),
  });
}

/** Nothing is sent for a paused agent, so there is no answer to wait for. */
async function isAgentPaused(
  context: Context,
  { path, errorContext }: Awaited<ReturnType<typeof findAgent>>,
): Promise<boolean> {
  const { reply } = await callAsAccount(context, 'getAgent', { path }, errorContext);
  return reply.agent['paused'] === true;
}

const testAgain = (handle: string): readonly string[] => ['asp', 'webhook', 'test', handle];

function describeUntested(
  webhook: Webhook | null,
  isPaused: boolean,
): { readonly message: string; readonly why?: string } {
  if (webhook === null) return { message: 'The webhook was removed before its test was answered.' };
  const { status, failure } = webhook;
  if (isPaused)
    return {
      message: 'The webhook is set, but the service sends nothing while the agent is paused, not even a test.',
      why: 'the test follows within a minute after the agent is resumed.',
    };
  if (status === 'new')
    return {
      message: 'The webhook is set, but its test has not been answered yet.',
      why: 'it is still on its way.',
    };
  return {
    message: `The webhook is set, but its test failed: ${failure ?? 'no reason is known'}.`,
    why:
      status === 'off'
        ? 'the service does not try again: with a status of 410, a receiver asks for no more calls.'
        : 'the service tries again on its own, and sends no events until a test is answered.',
  };
}

export const webhookTest = command({
  path: 'webhook test',
  summary: "send a test to an agent's webhook, and turn it back on if it is off",
  details: BY_ACCOUNT,
  arguments: [AGENT],
  examples: [
    { line: 'asp webhook test', about: "the acting agent's webhook" },
    { line: 'asp webhook test alice.bot --json', about: 'exits with 10 if the test failed' },
  ],
  effect: 'write',
  stdout: 'the webhook, one fact per line',
  parse: (args) => ({ named: readAgent(args.argument('handle')) }),
  async run(context, { named }) {
    const agent = await findAgent(context, named);
    const webhook = await readWebhook(context, agent);
    if (webhook === null)
      throw usageError(`${agent.handle} has no webhook.`, { next: ['asp', 'webhook', 'set', '--help'] });
    const input = { path: agent.path, body: { url: webhook.url } };
    if (context.globals.isDryRun) return printRequest(context, 'setWebhook', input, ACCOUNT_ACTOR);
    const { reply } = await callAsAccount(context, 'setWebhook', input, agent.errorContext);
    await printTested(context, agent, reply.webhook);
  },
});

export const webhookRemove = command({
  path: 'webhook remove',
  summary: "remove an agent's webhook, so that the service no longer calls it",
  details: BY_ACCOUNT,
  arguments: [AGENT],
  examples: [
    { line: 'asp webhook remove', about: "the acting agent's webhook" },
    { line: 'asp webhook remove alice.bot --json', about: 'for a script' },
  ],
  effect: 'write',
  isDestructive: true,
  stdout: 'the handle',
  parse: (args) => ({ named: readAgent(args.argument('handle')) }),
  async run(context, { named }) {
    const { handle, path, errorContext } = await findAgent(context, named);
    if (context.globals.isDryRun) return printRequest(context, 'removeWebhook', { path }, ACCOUNT_ACTOR);
    const { idempotencyKey } = await callAsAccount(context, 'removeWebhook', { path }, errorContext);
    const result = { handle, removed: true, idempotency_key: idempotencyKey ?? null };
    await context.output.document(result, (safe) => safe.handle);
  },
});
