import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import { type ErrorCode, errorRow } from '../../wire/error.js';
import { isCsrfOf } from '../authorization-server/account/browser.js';
import { signInFor } from '../authorization-server/account/return-address.js';
import { forgedForm, requireSameOrigin } from '../authorization-server/account/same-origin.js';
import {
  acceptTypes,
  asOAuthError,
  bodyOf,
  FORM_TYPE,
  redirect,
  refuseOtherMethods,
} from '../authorization-server/api-scope.js';
import { PATH } from '../authorization-server/metadata.js';
import { OAuthError } from '../authorization-server/oauth-error.js';
import { type Parameters, readParameters } from '../authorization-server/parameters.js';
import type { AuthorizationServer } from '../authorization-server/server.js';
import { frameHeaders, renderFrame, type View } from '../pages/dashboard/frame.js';
import { durationInWords } from '../pages/form.js';
import { pageHeaders } from '../pages/layout.js';
import { renderErrorPage, renderSignedOutPage } from '../pages/message-page.js';
import { answerWith, JSON_TYPE } from '../rest/error-answer.js';
import { sendAnswer } from '../rest/send-answer.js';
import { ServiceError } from '../service-error.js';
import { noNoteCookie } from './note-cookie.js';
import { refusedView, strayView } from './refusal.js';
import { PAGE_ROWS } from './rows.js';
import { createLiveTranscripts, type LiveTranscripts } from './sessions/live.js';
import { type DashboardAnswer, type PageRow, page, readVisit, type Visit, withHeaders } from './visit.js';

/** Whatever the app does about HEAD, here it is no GET. */
const GET_ALONE = { exposeHeadRoute: false } as const;
const ONWARD = { href: PATH.dashboard, label: 'Dashboard' } as const;
const LIVE_PATH = `${PATH.dashboard}/sessions/:session_id/live`;

/** What of the dashboard goes on by itself. */
export type Dashboard = Pick<LiveTranscripts, 'stop'>;

/** Mounts the dashboard below the web origin; what it installs stays within its own scope. */
export function registerDashboard(app: FastifyInstance, server: AuthorizationServer): Dashboard {
  const live = createLiveTranscripts(server);
  app.register(async (scope) => {
    acceptTypes(scope, [FORM_TYPE]);
    scope.setErrorHandler((error, request, reply) => answerFailure(server, error, request, reply));
    for (const row of PAGE_ROWS) registerRow(scope, server, row);
    scope.get('/', GET_ALONE, async (_request, reply) => redirect(reply, PATH.dashboard));
    scope.get('/*', GET_ALONE, async (request, reply) => answerStray(server, request, reply));
    scope.get(`${PATH.dashboard}/*`, GET_ALONE, async (request, reply) =>
      answerVisit(server, request, reply, async () => strayPage()),
    );
  });
  // Whoever asks for it is a script, which is told what went wrong as programs are.
  app.get(LIVE_PATH, GET_ALONE, async (request, reply) => live.open(request, reply));
  return live;
}

function registerRow(scope: FastifyInstance, server: AuthorizationServer, row: PageRow): void {
  const { path, show, act } = row;
  if (show !== undefined) {
    scope.get(path, GET_ALONE, async (request, reply) => answerVisit(server, request, reply, show));
  }
  if (act !== undefined) {
    scope.post(path, async (request, reply) => {
      requireSameOrigin(server, request);
      const form = readParameters(bodyOf(request));
      // The browser itself vouches that the form stood on a page of this service.
      const isOwnForm = row.again !== undefined && request.headers['sec-fetch-site'] === 'same-origin';
      const kept = isOwnForm ? keptOf(form) : [];
      if (kept.length > 0 && (await readVisit(server, request)) === undefined)
        return keepTyped(server, request, reply, kept);
      return answerVisit(server, request, reply, async (visit) => {
        if (!isCsrfOf(visit.browser, undefined, form.one('csrf'))) {
          if (row.again === undefined || kept.length === 0) throw forgedForm('csrf');
          return row.again(visit, form, { mistakes: [{ message: SIGNED_IN_AGAIN }], status: 403 });
        }
        try {
          await server.context.limits.take('general', visit.account.id);
          const answer = await act(visit, form);
          // A page shows the form again: nothing was done.
          if (answer.kind !== 'page') tell(visit, 'done');
          return answer;
        } catch (error) {
          const isRefusal = error instanceof ServiceError && REFUSALS.includes(error.code);
          if (!isRefusal) throw error;
          tell(visit, error.code);
          return refuse(visit, row, form, error);
        }
      });
    });
  }
  const allowed = [show !== undefined && 'GET', act !== undefined && 'POST'].filter((method) => method !== false);
  refuseOtherMethods(scope, path, allowed);
}

/** Tells the security log which form an account has sent. */
function tell({ account, context, request }: Visit, outcome: string): void {
  const [target = ''] = request.url.split('?', 1);
  context.log.security?.('account_acted', { account: account.username, address: request.ip, target, outcome });
}

/** What a form may run into that is no mistake of the person who filled it in. */
const REFUSALS: readonly ErrorCode[] = ['RATE_LIMITED', 'FEATURE_NOT_AVAILABLE'];

const SIGNED_IN_AGAIN = 'You have signed in again since this page was opened. Check what it says, then send it.';

/** What was typed or chosen in a form; a password is typed again. */
function keptOf(form: Parameters): Parameters['entries'] {
  return form.entries.filter(([name]) => name !== 'csrf' && name !== 'key' && !name.includes('password'));
}

/** Somebody sends a form whose sign-in has ended: what was typed waits on this page until they have signed in again. */
function keepTyped(
  { context }: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
  entries: Parameters['entries'],
): FastifyReply {
  const html = renderSignedOutPage({
    place: new URL(context.settings.addresses.webUrl).host,
    signInPath: PATH.signIn,
    form: { path: request.url, entries },
  });
  return reply.code(403).headers(pageHeaders()).send(html);
}

/** Nothing that was typed is lost: it stands in the form again, or behind a button that sends it again. */
async function refuse(
  visit: Visit,
  { again }: PageRow,
  form: Parameters,
  { code, message: reason, status, options: { retryAfterS } }: ServiceError,
): Promise<DashboardAnswer> {
  const said = reason === errorRow('RATE_LIMITED').message ? 'Too many changes.' : reason;
  const message = retryAfterS === undefined ? said : `${said} Try again in ${durationInWords(retryAfterS)}.`;
  const path = visit.request.url;
  const answer =
    again === undefined
      ? page(refusedView({ code, message, retry: { path, csrf: visit.csrf, entries: form.entries } }), { status })
      : await again(visit, form, { mistakes: [{ message }], status });
  return retryAfterS === undefined ? answer : withHeaders(answer, { 'retry-after': String(retryAfterS) });
}

/** An address that leads nowhere; whoever does not ask for a page is told as programs are. */
async function answerStray(
  { context }: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  if (request.headers.accept?.includes('text/html') !== true) throw new ServiceError('NOT_FOUND');
  const html = renderErrorPage({
    place: new URL(context.settings.addresses.webUrl).host,
    title: 'There is nothing here',
    message: 'This page does not exist.',
    code: 'NOT_FOUND',
    onward: ONWARD,
  });
  return reply.code(404).headers(pageHeaders()).send(html);
}

/** Whoever is not signed in does that first, and comes back. */
async function answerVisit(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
  work: (visit: Visit) => Promise<DashboardAnswer>,
): Promise<FastifyReply> {
  const visit = await readVisit(server, request);
  if (visit === undefined) {
    return redirect(reply, signInFor(request.method === 'GET' ? (request.raw.url ?? '') : PATH.dashboard));
  }
  return send(reply, visit, await attempt(visit, work));
}

/** A refusal of the domain is a page like any other; what nobody may know of is the page of an address that never was. */
async function attempt(visit: Visit, work: (visit: Visit) => Promise<DashboardAnswer>): Promise<DashboardAnswer> {
  try {
    return await work(visit);
  } catch (error) {
    if (!(error instanceof ServiceError) || error.status >= 500) throw error;
    if (error.status === 404 || error.code === 'FORBIDDEN' || error.code === 'INVALID_HANDLE') return strayPage();
    return page(refusedView(error), { status: error.status });
  }
}

const strayPage = (): DashboardAnswer => ({ kind: 'page', view: strayView(), status: 404 });

function send(reply: FastifyReply, visit: Visit, answer: DashboardAnswer): FastifyReply {
  if (answer.kind === 'sheet') return reply.headers(pageHeaders()).send(answer.html);
  if (answer.kind === 'download') return sendDownload(reply, answer);
  if (answer.kind === 'moved') return redirect(reply.headers(answer.headers ?? {}), answer.to);
  const { view, status = 200, headers = {} } = answer;
  if (visit.note !== undefined) reply.header('set-cookie', noNoteCookie(visit.context.settings.addresses.webUrl));
  return reply
    .code(status)
    .headers({ ...frameHeaders(view), ...headers })
    .send(renderVisited(visit, view));
}

function sendDownload(
  reply: FastifyReply,
  { filename, json }: Extract<DashboardAnswer, { kind: 'download' }>,
): FastifyReply {
  const headers = [
    ['content-disposition', `attachment; filename="${filename}"`],
    ['content-security-policy', "sandbox; default-src 'none'"],
    ['cross-origin-resource-policy', 'same-origin'],
    ['referrer-policy', 'no-referrer'],
  ] as const;
  return sendAnswer(reply, { ...answerWith(200, JSON_TYPE, '', headers), more: json });
}

function renderVisited({ context, account, csrf }: Visit, view: View): string {
  return renderFrame(view, {
    place: new URL(context.settings.addresses.webUrl).host,
    account: { username: account.username, displayName: account.display_name },
    signOutPath: PATH.signOut,
    csrf,
  });
}

/** A form that another page has sent, a request that cannot be read, or a fault of the service. */
function answerFailure(
  { context }: AuthorizationServer,
  thrown: unknown,
  _request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const known = asOAuthError(thrown);
  if (known === undefined && thrown instanceof ServiceError) throw thrown;
  if (known === undefined) context.log.error('dashboard_failed', thrown);
  const error = known ?? new OAuthError('server_error', 'The service failed. Try again.');
  const html = renderErrorPage({
    place: new URL(context.settings.addresses.webUrl).host,
    title: error.status >= 500 ? 'Something went wrong' : 'This request cannot be completed',
    message: error.description,
    advice: 'Nothing was changed. Go back to the dashboard and try again from there.',
    code: error.error,
    onward: ONWARD,
  });
  return reply
    .code(error.status)
    .headers({ ...pageHeaders(), ...error.headers })
    .send(html);
}
