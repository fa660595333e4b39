import { existsSync } from 'node:fs';
import { wait } from '../../kit/clock.js';
import { newWebhookSecret, readWebhookSecret } from '../../kit/webhook.js';
import { splitHandle } from '../../wire/handle.js';
import { WEBHOOK_TIMEOUT_MS } from '../../wire/limit.js';
import type { Webhook } from '../../wire/schemas/agent.js';
import { type Argument, command, type Option } from '../command.js';
import { ACCOUNT_ACTOR, callAsAccount } from '../context/account.js';
import { printRequest } from '../context/calls.js';
import type { Context } from '../context/context.js';
import type { ErrorContext } from '../context/explain.js';
import { CliError, usageError } from '../errors.js';
import { isoTime } from '../terminal/relative-time.js';
import type { Style } from '../terminal/style.js';
import { readHandle } from '../values.js';

const AGENT = {
  usage: '[handle]',
  about: 'one of the agents of the account (default: the acting agent)',
} as const satisfies Argument;
const BY_ACCOUNT = 'It acts for the account: sign in once with asp login --account.';
/** How often the service is asked about the test, and how much longer than its receiver may take. */
const POLL_MS = 500;
const TEST_MAX_MS = WEBHOOK_TIMEOUT_MS + 5_000;

const readAgent = (text: string | undefined): string | undefined => (text === undefined ? undefined : readHandle(text));

async function findAgent(context: Context, named: string | undefined) {
  const handle = named ?? (await context.actingHandle());
  const errorContext: ErrorContext = {
    subject: handle,
    messages: {
      AGENT_NOT_FOUND: `There is no agent ${handle}, or it is private.`,
      FEATURE_NOT_AVAILABLE: 'This service calls no webhooks.',
      ASP_NOT_OFFERED: 'The service offers no webhooks.',
    },
    reasons: {
      FEATURE_NOT_AVAILABLE:
        'its operator turns them on with asp serve --webhooks. asp tail --forward posts events from this machine.',
    },
    next: { ASP_NOT_OFFERED: ['asp', 'tail', '--forward', '--help'] },
  };
  return { handle, path: splitHandle(handle), errorContext };
}

/** Null: the agent has none. */
async function readWebhook(context: Context, { path, errorContext }: Awaited<ReturnType<typeof findAgent>>) {
  return (await callAsAccount(context, 'getWebhook', { path }, errorContext)).reply.webhook;
}

const NO_WEBHOOK = (handle: string): CliError =>
  usageError(`${handle} has no webhook.`, { next: ['asp', 'webhook', 'set', '--help'] });

export const webhookShow = command({
  path: 'webhook show',
  summary: 'show the webhook of an agent, and whether its calls are answered',
  details: BY_ACCOUNT,
  arguments: [AGENT],
  examples: [
    { line: 'asp webhook show', about: 'of the acting agent' },
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
  { output }: Context,
  handle: string,
  webhook: Webhook | null,
  secret: string | null = null,
): Promise<void> {
  const shown: Shown = { handle, ...(webhook ?? { url: null, status: null }), secret };
  await output.document(shown, describe);
}

function describe(shown: Shown, style: Style): string {
  if (shown.url === null) return '';
  const { status, url, failure, failing_since: since, next_try_at: next, answered_at: answered, secret } = shown;
  const paint = status === 'on' ? style.green : status === 'new' ? style.dim : style.red;
  const line = (title: string, text: string | null): string[] => (text === null ? [] : [`${title.padEnd(9)}${text}`]);
  const time = (at: number | null): string | null => (at === null ? null : isoTime(at));
  return [
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
    about: 'sign with the secret in this private file; a file that does not exist is made, with a new secret',
  },
  { flags: '--new-secret', about: 'replace the secret with a new one' },
] as const satisfies readonly Option[];

export const webhookSet = command({
  path: 'webhook set',
  summary: 'have the service post the events of an agent to a URL while it has no connection',
  details: [
    BY_ACCOUNT,
    '',
    'Each event that someone else caused is one POST with the event as JSON, in order within a session, at least once. An',
    'answer with a status of 200 to 299 within 10 seconds proves that it was delivered. Everything else is tried again,',
    'with growing pauses for a day; after that, the webhook is off until you set it again. Events wait meanwhile.',
    '',
    'Nothing but a test (type webhook.test) is sent until the receiver has answered one. The headers webhook-id,',
    'webhook-timestamp and webhook-signature follow Standard Webhooks, whose libraries check them with the secret.',
    'webhook-id is the id of the event, and the same when the event comes again. x-asp-agent names the agent. asp tail',
    '--forward sends the same requests from your machine, so you can develop a receiver without a public address.',
    '',
    'The first call needs a secret: without an option a new one is made and printed once.',
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
    if (!URL.canParse(url)) throw usageError(`'${url}' is not a URL.`, { next: ['asp', 'webhook', 'set', '--help'] });
    return {
      url,
      named: readAgent(args.argument('handle')),
      secretFile: args.text('signing-secret-file'),
      isNew: args.flag('new-secret'),
    };
  },
  async run(context, { url, named, secretFile, isNew }) {
    const agent = await findAgent(context, named);
    const { path, errorContext } = agent;
    if (context.globals.isDryRun) return printRequest(context, 'setWebhook', { path, body: { url } }, ACCOUNT_ACTOR);
    const isFirst = (await readWebhook(context, agent)) === null;
    const made = secretFile === undefined && (isNew || isFirst) ? newWebhookSecret() : undefined;
    const secret = secretFile === undefined ? made : await readOrMakeSecret(context, secretFile);
    const body = { url, ...(secret !== undefined && { secret }) };
    await callAsAccount(context, 'setWebhook', { path, body }, errorContext);
    await printTested(context, agent, made);
  },
});

async function readOrMakeSecret(context: Context, path: string): Promise<string> {
  if (!existsSync(path)) {
    const { writePrivateFile } = await import('../../kit/private-file.js');
    const secret = newWebhookSecret();
    await writePrivateFile(path, `${secret}\n`);
    await context.output.note(`Wrote a new secret to ${path}.`);
    return secret;
  }
  const { readSecretFile } = await import('../context/client-secret.js');
  const secret = readSecretFile(path, { name: '--signing-secret-file', code: 'ASP_USAGE' });
  if (readWebhookSecret(secret) !== undefined) return secret;
  throw usageError(`${path} (--signing-secret-file) contains no webhook secret.`, {
    why: 'a secret is 24 to 64 bytes in base64, such as the output of openssl rand -base64 32. It may begin with whsec_.',
  });
}

/** Waits for the outcome of the test and prints it. */
async function printTested(
  context: Context,
  agent: Awaited<ReturnType<typeof findAgent>>,
  secret?: string,
): Promise<void> {
  const { clock, output, signal } = context;
  const endsAt = clock.monotonic() + TEST_MAX_MS;
  let webhook = await readWebhook(context, agent);
  while (webhook?.status === 'new' && clock.monotonic() < endsAt) {
    await wait(clock, POLL_MS, signal);
    webhook = await readWebhook(context, agent);
  }
  await print(context, agent.handle, webhook, secret ?? null);
  if (secret !== undefined) await output.note('The secret is not shown again.');
  if (webhook?.status === 'on') return output.note('It answered a test.');
  const failure = webhook?.failure ?? null;
  throw new CliError('ASP_PARTIAL', {
    message: `The webhook is set, but its receiver did not answer a test${failure === null ? '' : `: ${failure}`}.`,
    why: 'the service tries again on its own, and sends no events until one is answered.',
    outcome: 'applied',
    next: ['asp', 'webhook', 'test', agent.handle],
  });
}

export const webhookTest = command({
  path: 'webhook test',
  summary: 'send a test to the webhook of an agent, and turn it on again if it is off',
  details: BY_ACCOUNT,
  arguments: [AGENT],
  examples: [
    { line: 'asp webhook test', about: 'of the acting agent' },
    { line: 'asp webhook test alice.bot --json', about: 'exits with 10 if it was not answered' },
  ],
  effect: 'write',
  stdout: 'the webhook, one fact per line',
  parse: (args) => ({ named: readAgent(args.argument('handle')) }),
  async run(context, { named }) {
    const agent = await findAgent(context, named);
    const webhook = await readWebhook(context, agent);
    if (webhook === null) throw NO_WEBHOOK(agent.handle);
    const input = { path: agent.path, body: { url: webhook.url } };
    if (context.globals.isDryRun) return printRequest(context, 'setWebhook', input, ACCOUNT_ACTOR);
    await callAsAccount(context, 'setWebhook', input, agent.errorContext);
    await printTested(context, agent);
  },
});

export const webhookRemove = command({
  path: 'webhook remove',
  summary: 'have the service call the webhook of an agent no longer',
  details: BY_ACCOUNT,
  arguments: [AGENT],
  examples: [
    { line: 'asp webhook remove', about: 'of the acting agent' },
    { line: 'asp webhook remove alice.bot --json', about: 'for a script' },
  ],
  effect: 'write',
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
