import multipart from '@fastify/multipart';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type ErrorCode, errorRow } from '../../../wire/error.js';
import { type ActivityKind, recordActivity } from '../../agents/activity.js';
import { hasCode, ServiceError } from '../../core/errors.js';
import { createSemaphore, type Semaphore } from '../../core/semaphore.js';
import { answerWith, sendAnswer } from '../../http/answers.js';
import type { AddressBook } from '../../http/app.js';
import { PATH } from '../../oauth/metadata.js';
import { getBody, type Parameters, readParameters } from '../../oauth/parameters.js';
import type { AuthorizationServer } from '../../oauth/server.js';
import { hasPushSubscription } from '../../store/push.js';
import { acceptTypes, FORM_TYPE, methodRefusal, redirect, sendFailurePage } from '../api-scope.js';
import { forgedForm, matchesCsrf, requireSameOrigin, signInFor } from '../browser.js';
import { describeDuration, hiddenEntries } from '../form.js';
import { html } from '../html.js';
import { layOut, pageHeaders, readLook, sendErrorPage } from '../layout.js';
import { describeVisitor } from '../sign-in.js';
import { useTwelveHours } from '../time.js';
import { actAccess, actPause, actProfile, actRemoveAgent, showAgent, showProfile, showRemoveAgent } from './agent.js';
import { registerAgentPage } from './agent-page.js';
import { actNewAgent, showAgents, showNewAgent } from './agents.js';
import {
  actDisconnect,
  actDisconnectAll,
  showApplications,
  showDisconnect,
  showDisconnectAll,
} from './applications.js';
import {
  actClient,
  actNewClient,
  actRevokeClient,
  actRotateClient,
  showClient,
  showClients,
  showNewClient,
  showRevokeClient,
  showRotateClient,
} from './clients.js';
import { actExport, showSessionDownload } from './export.js';
import {
  type Frame,
  frameHeaders,
  GO_PATH,
  HELP_PATH,
  NEEDS_PATH,
  renderFrame,
  renderHelp,
  TRAFFIC_PATH,
  type View,
} from './frame.js';
import { actAllowKnock, actBlockKnock, actDismissKnock, actRestoreKnock, showKnocks } from './knocks.js';
import { createLiveTranscripts, type LiveTranscripts } from './live.js';
import { createLiveLists } from './live-lists.js';
import { countNeeds, showNeedsYou } from './needs-you.js';
import { actNewSession, showNewSession } from './new-session.js';
import { createPageBounds, type PageBounds } from './page-bounds.js';
import { showPlaces } from './palette.js';
import { actConfirm, actNewPasskey, actRemovePasskey, showNewPasskey, showRemovePasskey } from './passkeys.js';
import { actPicture, fetchPicture } from './picture.js';
import { showPrint } from './print.js';
import { actPushOff, actPushOn, RENEWAL_PATH, renewPush, sendWorker, WORKER_PATH } from './push-settings.js';
import { showSearch } from './search.js';
import { NEW_SESSION_PATH, showSessions } from './sessions.js';
import {
  actDeleteAccount,
  actEndBrowser,
  actEndOtherBrowsers,
  actName,
  actPassword,
  actPreferences,
  nameAgain,
  passwordAgain,
  showActivity,
  showDeleteAccount,
  showSettings,
} from './settings.js';
import {
  actRevokeLink,
  actSessionLink,
  LINKS_PATH,
  registerSharedSessions,
  showLinks,
  showSessionLinks,
} from './share-links.js';
import { STYLESHEET_ROUTE, sendStylesheet } from './stylesheet.js';
import {
  actAnswer,
  actDecline,
  actDismiss,
  actEnd,
  actInvite,
  actJoin,
  actLeave,
  actReopen,
  actRestore,
  actSend,
  actTrust,
  inviteAgain,
  sendAgain,
  showEnd,
  showLeave,
  showTrust,
} from './take-part.js';
import { showTraffic } from './traffic.js';
import { fetchAttachment, showEvent, showTranscript } from './transcript.js';
import { ALLOWLIST_PAGE, actRemoveEntry, actUnblock, BLOCKS_PAGE } from './trust.js';
import {
  type DashboardAnswer,
  discardFiles,
  moved,
  noNoteCookie,
  type PageRow,
  type PostedForm,
  page,
  REST,
  readPostedForm,
  readVisit,
  signedOutCookie,
  type Visit,
  withHeaders,
} from './visit.js';
import {
  actNewWebhookSecret,
  actRemoveWebhook,
  actWebhook,
  showNewWebhookSecret,
  showRemoveWebhook,
  showWebhook,
} from './webhook.js';

/** One page for everything that does not exist, was removed or belongs to another account. */
function unknownPage(): DashboardAnswer {
  const main = html`<div class="stack"><div class="head"><h1>Page not found</h1></div>
<p class="soft">This page does not exist, or its content was removed.</p>
<p><a class="button plain" href="/dashboard/agents">Your agents</a></p></div>`;
  return page({ title: 'Not found', section: undefined, main }, { status: 404 });
}

interface Refused {
  readonly code: ErrorCode;
  readonly message: string;
  /** The refused form, ready to be sent again. */
  readonly retry?: {
    readonly path: string;
    readonly csrf: string;
    readonly entries: readonly (readonly [name: string, value: string])[];
  };
}

/** Why a form was refused as a whole, worded for people. */
function refusedView({ code, message, retry }: Refused): View {
  const title = code === 'RATE_LIMITED' ? 'Too many changes' : 'This is not possible';
  const entries = retry?.entries.filter(([name]) => name !== 'csrf') ?? [];
  const form =
    retry &&
    html`<form method="post" action="${retry.path}">${hiddenEntries([...entries, ['csrf', retry.csrf]])}<button class="button plain">Try again</button></form>`;
  return {
    title: `Problem: ${title}`,
    section: undefined,
    main: html`<div class="stack"><div class="head"><h1>${title}</h1></div><p>${message}</p><p class="soft">Nothing was changed.</p>${form}</div>`,
  };
}

const toPauseActivity = (form: Parameters): ActivityKind =>
  form.one('paused') === 'true' ? 'agent-paused' : 'agent-resumed';

const AGENT = '/dashboard/agents/:name';
const SESSION = '/dashboard/sessions/:session_id';

/** Every address of the dashboard, except the area of its operators. */
export const PAGE_ROWS: readonly PageRow[] = [
  { path: PATH.dashboard, show: async () => moved('/dashboard/agents') },
  { path: `${PATH.dashboard}/`, show: async () => moved('/dashboard/agents') },
  { path: '/dashboard/agents', show: showAgents },
  { path: TRAFFIC_PATH, show: showTraffic },
  {
    path: '/dashboard/new-agent',
    show: showNewAgent,
    act: actNewAgent,
    again: showNewAgent,
    activity: 'agent-created',
  },
  { path: AGENT, show: showAgent, act: actAccess, again: showAgent, activity: 'agent-access' },
  { path: `${AGENT}/pause`, act: actPause, activity: toPauseActivity },
  { path: `${AGENT}/profile`, show: showProfile, act: actProfile, again: showProfile, activity: 'agent-profile' },
  { path: `${AGENT}/picture`, show: fetchPicture, act: actPicture, activity: 'agent-profile' },
  { path: `${AGENT}/allowlist`, ...ALLOWLIST_PAGE, activity: 'allowlist-changed' },
  { path: `${AGENT}/allowlist/remove`, act: actRemoveEntry, activity: 'allowlist-changed' },
  { path: `${AGENT}/knocks`, show: showKnocks },
  { path: `${AGENT}/knocks/allow`, act: actAllowKnock, activity: 'allowlist-changed' },
  { path: `${AGENT}/knocks/dismiss`, act: actDismissKnock },
  { path: `${AGENT}/knocks/restore`, act: actRestoreKnock },
  { path: `${AGENT}/knocks/block`, act: actBlockKnock, activity: 'blocks-changed' },
  { path: `${AGENT}/blocks`, ...BLOCKS_PAGE, activity: 'blocks-changed' },
  { path: `${AGENT}/blocks/remove`, act: actUnblock, activity: 'blocks-changed' },
  { path: `${AGENT}/webhook`, show: showWebhook, act: actWebhook, again: showWebhook, activity: 'webhook-set' },
  {
    path: `${AGENT}/webhook/secret`,
    show: showNewWebhookSecret,
    act: actNewWebhookSecret,
    activity: 'webhook-set',
  },
  {
    path: `${AGENT}/webhook/remove`,
    show: showRemoveWebhook,
    act: actRemoveWebhook,
    activity: 'webhook-removed',
  },
  { path: `${AGENT}/remove`, show: showRemoveAgent, act: actRemoveAgent, activity: 'agent-removed' },
  { path: NEEDS_PATH, show: showNeedsYou },
  { path: HELP_PATH, show: async ({ context }) => page(renderHelp(context.settings.addresses.baseUrl)) },
  { path: '/dashboard/search', show: showSearch },
  { path: GO_PATH, show: showPlaces },
  { path: '/dashboard/sessions', show: showSessions },
  { path: NEW_SESSION_PATH, show: showNewSession, act: actNewSession, again: showNewSession },
  { path: SESSION, show: showTranscript, act: actSend, again: sendAgain },
  { path: `${SESSION}/answer`, act: actAnswer },
  { path: `${SESSION}/dismiss`, act: actDismiss },
  { path: `${SESSION}/restore`, act: actRestore },
  { path: `${SESSION}/join`, act: actJoin },
  { path: `${SESSION}/decline`, act: actDecline },
  { path: `${SESSION}/invite`, act: actInvite, again: inviteAgain },
  { path: `${SESSION}/leave`, show: showLeave, act: actLeave },
  { path: `${SESSION}/end`, show: showEnd, act: actEnd },
  { path: `${SESSION}/reopen`, act: actReopen },
  { path: `${SESSION}/download`, show: showSessionDownload },
  { path: `${SESSION}/print`, show: showPrint },
  {
    path: `${SESSION}/links`,
    show: showSessionLinks,
    act: actSessionLink,
    again: showSessionLinks,
    activity: 'link-created',
  },
  { path: `${SESSION}/trust`, show: showTrust, act: actTrust },
  { path: `${SESSION}/events/:sequence`, show: showEvent },
  { path: `${SESSION}/attachments/:attachment_id`, show: fetchAttachment },
  { path: LINKS_PATH, show: showLinks },
  { path: `${LINKS_PATH}/revoke`, act: actRevokeLink, activity: 'link-revoked' },
  { path: '/dashboard/clients', show: showClients },
  {
    path: '/dashboard/new-client',
    show: showNewClient,
    act: actNewClient,
    again: showNewClient,
    activity: 'credential-created',
  },
  {
    path: '/dashboard/clients/:id',
    show: showClient,
    act: actClient,
    again: showClient,
    activity: 'credential-changed',
  },
  {
    path: '/dashboard/clients/:id/rotate',
    show: showRotateClient,
    act: actRotateClient,
    activity: 'credential-rotated',
  },
  {
    path: '/dashboard/clients/:id/revoke',
    show: showRevokeClient,
    act: actRevokeClient,
    activity: 'credential-revoked',
  },
  {
    path: '/dashboard/settings',
    show: showSettings,
    act: actPassword,
    again: passwordAgain,
    activity: 'password-changed',
  },
  { path: '/dashboard/settings/activity', show: showActivity },
  { path: '/dashboard/settings/preferences', act: actPreferences },
  { path: '/dashboard/settings/name', act: actName, again: nameAgain, activity: 'name-changed' },
  { path: '/dashboard/settings/delete', show: showDeleteAccount, act: actDeleteAccount, again: showDeleteAccount },
  { path: '/dashboard/settings/export', act: actExport, activity: 'data-exported' },
  { path: '/dashboard/settings/passkeys/new', show: showNewPasskey, act: actNewPasskey },
  { path: '/dashboard/settings/passkeys/confirm', act: actConfirm },
  { path: '/dashboard/settings/passkeys/:id/remove', show: showRemovePasskey, act: actRemovePasskey },
  { path: '/dashboard/settings/push', act: actPushOn, activity: 'push-on' },
  { path: '/dashboard/settings/push/remove', act: actPushOff, activity: 'push-off' },
  { path: '/dashboard/settings/browsers/end', act: actEndBrowser, activity: 'browser-ended' },
  { path: '/dashboard/settings/browsers/end-others', act: actEndOtherBrowsers, activity: 'browsers-ended' },
  { path: '/dashboard/applications', show: showApplications },
  {
    path: '/dashboard/applications/disconnect-all',
    show: showDisconnectAll,
    act: actDisconnectAll,
    activity: 'apps-disconnected',
  },
  {
    path: '/dashboard/applications/:id/disconnect',
    show: showDisconnect,
    act: actDisconnect,
    activity: 'app-disconnected',
  },
];

/** HEAD is not treated like GET here, whatever the app does. */
const GET_ALONE = { exposeHeadRoute: false } as const;
const LIVE_PATH = `${PATH.dashboard}/sessions/:session_id/live`;

/** Forms with files that one account sends at the same time; their text is held in memory. */
const FORMS_WITH_FILES = { max: 4, waitingMax: 16 } as const;

/** The account that sends a form; all strangers count as one. */
async function findSender(server: AuthorizationServer, request: FastifyRequest): Promise<string> {
  return (await readVisit(server, request))?.account.id ?? 'stranger';
}

/** Background work of the dashboard. */
export type Dashboard = Pick<LiveTranscripts, 'stop'>;

/**
 * Mounts the dashboard below the web origin; everything it installs stays within its own scope. Rows that need parts of
 * the service that the dashboard does not know are passed in.
 */
export function registerDashboard(
  { fastify, otherMethods }: AddressBook,
  server: AuthorizationServer,
  furtherRows: readonly PageRow[],
): Dashboard {
  const bounds = createPageBounds(server.context);
  const live = createLiveTranscripts(server, bounds);
  const lists = createLiveLists(server, bounds);
  const bodies = createSemaphore({ ...FORMS_WITH_FILES, refusal: 'Too many people are sending files right now.' });
  const rows = [...PAGE_ROWS, ...furtherRows];
  for (const { path, show, act } of rows) {
    const allowed = [show !== undefined && 'GET', act !== undefined && 'POST'].filter((method) => method !== false);
    otherMethods.refuse(path, (_request, reply) => answerFailure(server, methodRefusal(allowed), reply));
  }
  fastify.register(async (scope) => {
    acceptTypes(scope, [FORM_TYPE]);
    await scope.register(multipart);
    scope.setErrorHandler((error, _request, reply) => answerFailure(server, error, reply));
    for (const row of rows) registerRow(scope, server, { bodies, bounds }, row);
    registerAgentPage(scope, server, bounds);
    registerSharedSessions(scope, server, bounds);
    scope.post(RENEWAL_PATH, async (request, reply) => {
      requireSameOrigin(server, request);
      const visit = await readVisit(server, request);
      if (visit === undefined) throw new ServiceError('UNAUTHORIZED', 'This browser is not signed in.');
      await renewPush(visit, readParameters(getBody(request)));
      return reply.code(204).send();
    });
    scope.get(STYLESHEET_ROUTE, GET_ALONE, sendStylesheet);
    scope.get(WORKER_PATH, GET_ALONE, async (_request, reply) => sendWorker(server, reply));
    scope.get('/', GET_ALONE, async (_request, reply) => redirect(reply, PATH.dashboard));
    scope.get(
      '/*',
      GET_ALONE,
      async (request, reply) => otherMethods.answer(request, reply) ?? answerUnknown(server, request, reply),
    );
    scope.get(
      `${PATH.dashboard}/*`,
      GET_ALONE,
      async (request, reply) =>
        otherMethods.answer(request, reply) ??
        leadFromSlash(request, reply) ??
        answerVisit(server, request, reply, async () => unknownPage()),
    );
  });
  // The caller is a script, so it gets errors in the form for programs.
  fastify.get(LIVE_PATH, GET_ALONE, async (request, reply) => live.open(request, reply));
  fastify.get(`${PATH.dashboard}/live`, GET_ALONE, async (request, reply) => lists.open(request, reply));
  return {
    stop() {
      live.stop();
      lists.stop();
    },
  };
}

interface RowParts {
  readonly bodies: Semaphore;
  readonly bounds: PageBounds;
}

function registerRow(
  scope: FastifyInstance,
  server: AuthorizationServer,
  { bodies, bounds }: RowParts,
  row: PageRow,
): void {
  const { path, show, act } = row;
  if (show !== undefined) {
    scope.get(path, GET_ALONE, async (request, reply) =>
      answerVisit(server, request, reply, (visit) => showInTurn(bounds, visit, show)),
    );
  }
  if (act !== undefined) {
    scope.post(path, async (request, reply) => {
      requireSameOrigin(server, request);
      if (!request.isMultipart())
        return answerForm(server, { ...row, act }, { request, reply, form: await readPostedForm(request) });
      return bodies.use(await findSender(server, request), async () => {
        const form = await readPostedForm(request);
        try {
          return await answerForm(server, { ...row, act }, { request, reply, form });
        } finally {
          await discardFiles(form);
        }
      });
    });
  }
}

/** A page of the dashboard, as soon as the account may have another one. */
async function showInTurn(bounds: PageBounds, visit: Visit, show: Required<PageRow>['show']): Promise<DashboardAnswer> {
  let hasBegun = false;
  try {
    const answer = await bounds.forAccount(visit.account.id, () => {
      hasBegun = true;
      return show(visit);
    });
    return answer.kind === 'streamed' ? { ...answer, texts: bounds.inTurn(visit.account.id, answer.texts) } : answer;
  } catch (error) {
    if (hasBegun || !hasCode(error, 'RATE_LIMITED')) throw error;
    const waitS = error.options.retryAfterS ?? 1;
    const view: View = {
      title: 'Problem: Too many pages',
      section: undefined,
      main: html`<div class="stack"><div class="head"><h1>Too many pages</h1></div><p>You opened too many pages. Try again in ${describeDuration(waitS)}.</p></div>`,
    };
    return page(view, { status: 429, headers: { 'retry-after': String(waitS) } });
  }
}

interface Posted {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly form: PostedForm;
}

async function answerForm(
  server: AuthorizationServer,
  row: PageRow & Required<Pick<PageRow, 'act'>>,
  { request, reply, form }: Posted,
): Promise<FastifyReply> {
  // The browser itself confirms that the form came from a page of this service.
  const isOwnForm = row.again !== undefined && request.headers['sec-fetch-site'] === 'same-origin';
  const kept = isOwnForm ? listKept(form) : [];
  if (kept.length > 0 && (await readVisit(server, request)) === undefined)
    return sendSheet(reply, keepTyped(server, request, kept));
  return answerVisit(server, request, reply, async (visit) => {
    if (!matchesCsrf(visit.browser, undefined, form.one('csrf'))) {
      if (row.again === undefined || kept.length === 0) throw forgedForm('csrf');
      return row.again(visit, form, { mistakes: [{ message: SIGNED_IN_AGAIN }], status: 403 });
    }
    try {
      await server.context.limits.take('general', visit.account.id);
      const answer = await row.act(visit, form);
      // The page shows the form again: nothing was done.
      if (answer.kind !== 'page') await tellDone(visit, row, answer, form);
      return answer;
    } catch (error) {
      if (hasCode(error, 'UNAUTHORIZED')) {
        logOutcome(visit, 'signed_out');
        return kept.length > 0 ? keepTyped(server, request, kept) : toSignIn(server, request);
      }
      const isRefusal = error instanceof ServiceError && REFUSALS.includes(error.code);
      if (!isRefusal) throw error;
      logOutcome(visit, error.code);
      return refuse(visit, row, form, error);
    }
  });
}

/** Records what an account has done, in the security log and for its owner. */
async function tellDone(visit: Visit, row: PageRow, answer: DashboardAnswer, form: Parameters): Promise<void> {
  const { account, context, part, request } = visit;
  logOutcome(visit, 'done');
  const activity = typeof row.activity === 'function' ? row.activity(form) : row.activity;
  const { to = '', affected } = answer.kind === 'moved' ? answer : {};
  if (activity === undefined || affected === null) return;
  const made = to.split('/')[3] ?? '';
  const name = part('name') !== '' ? part('name') : part('id') !== '' ? part('id') : made;
  const entry = { ...describeVisitor(request), accountId: account.id, kind: activity, detail: affected ?? name };
  await context.database.write((transaction) => recordActivity(context, transaction, entry));
}

/** Records in the security log which form an account has sent. */
function logOutcome({ account, context, request }: Visit, outcome: string): void {
  const [target = ''] = request.url.split('?', 1);
  context.log.security?.('account_acted', { account: account.username, address: request.ip, target, outcome });
}

/** Errors of a form that are not mistakes of the person who filled it in. */
const REFUSALS: readonly ErrorCode[] = ['RATE_LIMITED', 'FEATURE_NOT_AVAILABLE'];

const SIGNED_IN_AGAIN = 'You signed in again after you opened this page. Check the form, then send it.';

/** The contents of a form, without passwords. */
function listKept(form: Parameters): Parameters['entries'] {
  return form.entries.filter(([name]) => name !== 'csrf' && name !== 'key' && !name.includes('password'));
}

/** If the sign-in of a form has ended, its contents wait on this page until the person has signed in again. */
function keepTyped({ context }: AuthorizationServer, request: FastifyRequest, entries: Parameters['entries']): Sheet {
  const title = 'You were signed out';
  const main = html`<div class="stack">
<div class="stack-tight"><h1>${title}</h1><p>This page keeps what you typed. Sign in in a new tab, then come back and continue.</p></div>
<form method="post" action="${request.url}"${request.isMultipart() && html` enctype="multipart/form-data"`}>${hiddenEntries(entries)}<div class="actions"><a class="button primary" href="${PATH.signIn}" target="_blank" rel="noopener">Sign in</a><button class="button plain">Continue</button></div></form>
</div>`;
  const sheet = layOut({ look: readLook(context, request), title: `Problem: ${title}`, main });
  return { kind: 'sheet', html: sheet, status: 403 };
}

type Sheet = Extract<DashboardAnswer, { kind: 'sheet' }>;

const sendSheet = (reply: FastifyReply, { html: text, status = 200 }: Sheet): FastifyReply =>
  reply.code(status).headers(pageHeaders()).send(text);

/** Signing in leads back to the page of the form, and says that nothing was done. */
function toSignIn(
  { context }: AuthorizationServer,
  request: FastifyRequest,
): Extract<DashboardAnswer, { kind: 'moved' }> {
  const headers = { 'set-cookie': signedOutCookie(context.settings.addresses.webUrl) };
  return { kind: 'moved', to: signInFor(findPageOf(request)), headers };
}

/** No input is lost: it is in the form again, or behind a button that sends it again. */
async function refuse(
  visit: Visit,
  { again }: PageRow,
  form: Parameters,
  { code, message: reason, status, options: { retryAfterS } }: ServiceError,
): Promise<DashboardAnswer> {
  const title = reason === errorRow('RATE_LIMITED').message ? 'Too many changes.' : reason;
  const message = retryAfterS === undefined ? title : `${title} Try again in ${describeDuration(retryAfterS)}.`;
  const path = visit.request.url;
  const answer =
    again === undefined
      ? page(refusedView({ code, message, retry: { path, csrf: visit.csrf, entries: form.entries } }), { status })
      : await again(visit, form, { mistakes: [{ message }], status });
  return retryAfterS === undefined ? answer : withHeaders(answer, { 'retry-after': String(retryAfterS) });
}

/** An unknown address; requests that do not ask for a page get the error for programs. */
async function answerUnknown(
  { context }: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  if (request.headers.accept?.includes('text/html') !== true) throw new ServiceError('NOT_FOUND');
  return sendErrorPage(reply, context, 404, {
    title: 'Page not found',
    message: 'This page does not exist.',
    code: 'NOT_FOUND',
    onward: { href: PATH.dashboard, label: 'Dashboard' },
  });
}

/** Firefox completes the address of a page that has others below it with a slash. The address without it is the page's. */
function leadFromSlash({ raw: { url = '' } }: FastifyRequest, reply: FastifyReply): FastifyReply | undefined {
  const [path = '', query] = url.split(/\?(.*)/s, 2);
  let end = path.length;
  while (path[end - 1] === '/') end -= 1;
  if (end === path.length) return undefined;
  const page = path.slice(0, end);
  return redirect(reply, query === undefined ? page : `${page}?${query}`);
}

/** The page that has a form, or the nearest one above the form's address. */
function findPageOf({ raw, routeOptions, server }: FastifyRequest): string {
  let path = raw.url?.split('?', 1)[0] ?? '';
  let { url = '' } = routeOptions;
  while (url.length > PATH.dashboard.length && !server.hasRoute({ method: 'GET', url })) {
    path = path.slice(0, path.lastIndexOf('/'));
    url = url.slice(0, url.lastIndexOf('/'));
  }
  // Back to the view of one agent, not to that of the whole account.
  const as = new URLSearchParams(raw.url?.split('?')[1]).get('as');
  return as === null ? path : `${path}?${new URLSearchParams({ as })}`;
}

async function answerVisit(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
  work: (visit: Visit) => Promise<DashboardAnswer>,
): Promise<FastifyReply> {
  const visit = await readVisit(server, request);
  if (visit === undefined) {
    const address = request.raw.url ?? '';
    if (request.method === 'GET') return redirect(reply, signInFor(address));
    const { to, headers } = toSignIn(server, request);
    return redirect(reply.headers(headers ?? {}), to);
  }
  return send(reply, visit, await attempt(visit, work));
}

/** A refusal by the domain is an ordinary page; hidden objects get the page of an unknown address. */
async function attempt(visit: Visit, work: (visit: Visit) => Promise<DashboardAnswer>): Promise<DashboardAnswer> {
  try {
    return await work(visit);
  } catch (error) {
    if (!(error instanceof ServiceError) || error.status >= 500) throw error;
    if (error.status === 404 || error.code === 'FORBIDDEN' || error.code === 'INVALID_HANDLE') return unknownPage();
    return page(refusedView(error), { status: error.status });
  }
}

async function send(reply: FastifyReply, visit: Visit, answer: DashboardAnswer): Promise<FastifyReply> {
  if (answer.kind === 'sheet') return sendSheet(reply, answer);
  if (answer.kind === 'download') return sendDownload(reply, visit, answer);
  if (answer.kind === 'streamed') return sendStreamed(reply, visit, await readFrame(visit), answer);
  if (answer.kind === 'moved') return redirect(reply.headers(answer.headers ?? {}), answer.to);
  const { view, status = 200, headers = {} } = answer;
  if (visit.note !== undefined) reply.header('set-cookie', noNoteCookie(visit.context.settings.addresses.webUrl));
  return reply
    .code(status)
    .headers({ ...frameHeaders(view), ...headers })
    .send(renderFrame(view, await readFrame(visit)));
}

async function readFrame({ context, account, browser, csrf, request }: Visit): Promise<Frame> {
  const isPushed =
    context.settings.webPush !== undefined &&
    (await context.database.read((query) => hasPushSubscription(query, browser.hash)));
  return {
    look: readLook(context, request),
    account,
    version: context.settings.version,
    csrf,
    now: context.clock.now(),
    needsCount: await countNeeds(context, account.id),
    isPushed,
  };
}

function sendDownload(
  reply: FastifyReply,
  { context }: Visit,
  { filename, type, texts }: Extract<DashboardAnswer, { kind: 'download' }>,
): FastifyReply {
  const headers = [
    ['content-disposition', `attachment; filename="${filename}"`],
    ['content-security-policy', "sandbox; default-src 'none'"],
    ['cross-origin-resource-policy', 'same-origin'],
    ['referrer-policy', 'no-referrer'],
  ] as const;
  return sendAnswer(reply, { ...answerWith(200, type, '', headers), more: texts }, context.log);
}

function sendStreamed(
  reply: FastifyReply,
  { context }: Visit,
  frame: Frame,
  { view, texts }: Extract<DashboardAnswer, { kind: 'streamed' }>,
): FastifyReply {
  const [start = '', end = ''] = renderFrame(view, frame).split(REST.markup);
  const forReader = frame.look.preferences.hours === '12' ? useTwelveHours : String;
  async function* write(): AsyncGenerator<string> {
    for await (const text of texts) yield forReader(text);
    yield end;
  }
  const headers = Object.entries(frameHeaders(view));
  return sendAnswer(reply, { status: 200, headers, body: start, more: write() }, context.log);
}

function answerFailure({ context }: AuthorizationServer, thrown: unknown, reply: FastifyReply): FastifyReply {
  const advice = 'Nothing was changed. Go back to the dashboard and try again from there.';
  return sendFailurePage(context, thrown, reply, { event: 'dashboard_failed', adviceFor: () => advice });
}
