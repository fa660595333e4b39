import type { Context } from '../../context/context.js';
import { callOperator, requireLocalService } from '../../context/operator.js';
import { canOpenBrowser, openBrowser } from '../../terminal/browser.js';
import { UsageError } from '../../terminal/cli-error.js';
import type { Words } from '../../words/words.js';

export interface OpenOptions {
  /** Undefined: the only one, or that of the first seed. */
  readonly account: string | undefined;
  readonly opensBrowser: boolean;
}

export function parse(words: Words): OpenOptions {
  const account = words.text('account')?.replace(/^@/, '');
  if (account !== undefined && !/^[a-z0-9_-]{1,64}$/.test(account))
    throw new UsageError(`'${account}' is not an account.`, {
      why: 'it is the part of a handle before the dot: alice in @alice.bot.',
    });
  return { account, opensBrowser: !words.flag('no-browser') };
}

export async function run(context: Context, { account, opensBrowser }: OpenOptions): Promise<void> {
  const { environment, machine, output } = context;
  const record = await requireLocalService(context);
  const link = await callOperator(context, record, 'createSignInLink', {
    body: account === undefined ? {} : { account },
  });
  // The link is worth something only until it is used, or for a minute, and on this machine: the secret that made it is in no address.
  const isOpened =
    opensBrowser && canOpenBrowser(environment, machine.platform) && (await openBrowser(link.url, environment));
  await output.document({ ...link, opened: isOpened }, (safe) => safe.url);
  await output.note(
    isOpened
      ? `The browser opens the dashboard, signed in as ${link.account}.`
      : `Open it on this machine within a minute: it signs in as ${link.account}, once.`,
  );
}
