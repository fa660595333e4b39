import { createHash } from 'node:crypto';
import type { FastifyReply } from 'fastify';
import type { Query } from '../../core/database.js';
import { ServiceError } from '../../core/errors.js';
import type { Parameters } from '../../oauth/parameters.js';
import type { AuthorizationServer } from '../../oauth/server.js';
import {
  deletePushSubscription,
  findPushKey,
  hasPushSubscription,
  listPushSubscriptions,
  type PushSubscriptionRow,
} from '../../store/push.js';
import { WORKER_SCRIPT } from '../assets.js';
import { hidden } from '../form.js';
import { type Html, html } from '../html.js';
import { describeVisitor } from '../sign-in.js';
import { renderTime } from '../time.js';
import { renderButton } from './frame.js';
import { type DashboardAnswer, movedWithNote, type PageRow, type Visit } from './visit.js';
import { isUsable, PUSH_BROWSERS_MAX, subscribe, type WebPush } from './web-push.js';

const SETTINGS = '/dashboard/settings';
const PATH = `${SETTINGS}/push`;
/** Where the service worker sends a subscription that replaces another. */
export const RENEWAL_PATH = '/dashboard/push-renewal';
/** Its folder is the scope of the worker. */
export const WORKER_PATH = '/dashboard/worker.js';

/** Push notifications on the settings page. */
export interface PushSection {
  /** The public key of this service. */
  readonly key: string;
  readonly browsers: readonly PushSubscriptionRow[];
  /** Of the browser that shows the page. */
  readonly sessionHash: string;
}

/** Undefined: this service sends none. */
export async function readPush({ context, account, browser }: Visit, query: Query): Promise<PushSection | undefined> {
  if (context.settings.webPush === undefined) return undefined;
  const browsers = await listPushSubscriptions(query, account.id);
  return { key: await findPushKey(query), browsers, sessionHash: browser.hash };
}

/** A section of the settings. Its script shows what applies to this browser. */
export function renderPush(
  { key, browsers, sessionHash }: PushSection,
  { csrf, now }: { readonly csrf: string; readonly now: number },
): Html {
  const isOn = browsers.some(({ session_hash: hash }) => hash === sessionHash);
  const turnOn = html`<form method="post" action="${PATH}" data-when="off unanswered failed" hidden>${hidden({ csrf, endpoint: '', p256dh: '', auth: '' })}<button class="button plain small-button">Turn on in this browser</button></form>`;
  return html`<section class="stack-tight" id="push" data-key="${key}"${isOn && html` data-on`} aria-labelledby="push-title"><div class="between"><h2 id="push-title">Push notifications</h2>${turnOn}</div>
<p class="soft">Tells you what needs you, even while no page of this service is open. A notification names the agents, but shows none of their messages. The push service of your browser delivers it encrypted: it learns when something comes up, but not what.</p>
<div aria-live="off" class="soft"><p data-when="none">Push notifications need JavaScript, and this browser doesn’t run it here.</p>
<p data-when="insecure" hidden>Browsers allow push notifications only for services with an https address.</p>
<p data-when="unable" hidden>This browser can’t receive push notifications. On an iPhone or iPad, add this page to the home screen first.</p>
<p data-when="denied" hidden>This browser blocks notifications from this service. Allow them in its settings for this site, then reload the page.</p>
<p data-when="unanswered" hidden>You didn’t allow notifications. Turn them on to be asked again.</p>
<p data-when="failed" hidden>This browser can’t reach its push service. Check its connection and its settings, then try again.</p></div>
${browsers.length > 0 && html`<ul class="rows">${browsers.map((one) => renderBrowser(one, one.session_hash === sessionHash, csrf, now))}</ul>`}</section>`;
}

/** Lets a browser recognize its own subscription, after it was signed out by time and in again. */
const toMark = (endpoint: string): string => createHash('sha256').update(endpoint).digest('hex');

function renderBrowser(
  { session_hash: id, browser_name: name, endpoint, created_at: since }: PushSubscriptionRow,
  isThisOne: boolean,
  csrf: string,
  now: number,
): Html {
  const off = renderButton({
    path: `${PATH}/remove`,
    csrf,
    label: 'Turn off',
    about: html`in ${name}`,
    values: { id },
  });
  const test = renderButton({
    path: `${PATH}/test`,
    csrf,
    label: 'Send a test',
    about: html`to ${name}`,
    values: { id },
  });
  return html`<li class="row" data-subscription="${toMark(endpoint)}"><div class="who grow"><b>${name}</b><span class="soft small">Turned on ${renderTime(since, now)}, through <span class="mono wrap">${new URL(endpoint).host}</span></span></div>
${isThisOne && html`<span class="badge good">This browser</span>`}<div class="row-actions">${test}${off}</div></li>`;
}

export async function actPushOn(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  if (visit.context.settings.webPush === undefined) throw refusal('This service sends no push notifications.');
  await subscribeVisitor(visit, form);
  return movedWithNote(visit, SETTINGS, 'push-on');
}

async function subscribeVisitor({ context, account, browser, request }: Visit, form: Parameters): Promise<void> {
  const keys = {
    endpoint: form.one('endpoint') ?? '',
    p256dh: form.one('p256dh') ?? '',
    auth: form.one('auth') ?? '',
  };
  if (!isUsable(keys)) throw refusal('This service can’t send notifications to the push service of this browser.');
  const { browserName } = describeVisitor(request);
  const row = { ...keys, session_hash: browser.hash, account_id: account.id, browser_name: browserName ?? '' };
  if (!(await subscribe(context, row)))
    throw refusal(
      `An account can have push notifications in ${PUSH_BROWSERS_MAX} browsers. Turn them off in one first.`,
    );
}

/**
 * The browser has replaced its subscription on its own, and its service worker sends the new one. A worker has no form,
 * so it sends no secret of one; it can only replace the subscription that this sign-in has.
 */
export async function renewPush(visit: Visit, form: Parameters): Promise<void> {
  const { context, account, browser } = visit;
  await context.limits.take('general', account.id);
  const isOn = await context.database.read((query) => hasPushSubscription(query, browser.hash));
  if (context.settings.webPush === undefined || !isOn) throw new ServiceError('NOT_FOUND');
  await subscribeVisitor(visit, form);
}

/** The form that sends a test notification. The sender starts after the pages. */
export function createPushTestRow(getSender: () => Pick<WebPush, 'sendTest'> | undefined): PageRow {
  return {
    path: `${PATH}/test`,
    async act(visit, form) {
      const { context, account } = visit;
      const browsers = await context.database.read((query) => listPushSubscriptions(query, account.id));
      const to = browsers.find(({ session_hash: id }) => id === form.one('id'));
      const sender = getSender();
      if (to === undefined || sender === undefined) return movedWithNote(visit, SETTINGS, 'push-off');
      sender.sendTest(to);
      return movedWithNote(visit, SETTINGS, 'push-tested');
    },
  };
}

/** It is not an error if they were turned off in the meantime. */
export async function actPushOff(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, account } = visit;
  const id = form.one('id') ?? '';
  await context.database.write((transaction) => deletePushSubscription(transaction, account.id, id));
  return movedWithNote(visit, SETTINGS, 'push-off');
}

const refusal = (message: string): ServiceError => new ServiceError('FEATURE_NOT_AVAILABLE', message);

/** For everyone: browsers fetch it again on their own, even after signing out. */
export function sendWorker({ context }: AuthorizationServer, reply: FastifyReply): FastifyReply {
  if (context.settings.webPush === undefined) throw new ServiceError('NOT_FOUND');
  return reply
    .headers({
      'content-type': 'text/javascript; charset=utf-8',
      'content-security-policy': "default-src 'none'; connect-src 'self'",
      'cache-control': 'no-store',
      'cross-origin-resource-policy': 'same-origin',
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
    })
    .send(WORKER_SCRIPT);
}
