import type { FastifyRequest } from 'fastify';

import { type Browser, findAccountOf, readBrowser } from '../authorization-server/account/browser.js';
import { checkPassword } from '../authorization-server/account/check-password.js';
import { type Parameters, queryOf, readParameters } from '../authorization-server/parameters.js';
import type { AuthorizationServer } from '../authorization-server/server.js';
import type { AccountActor, ServiceContext } from '../context.js';
import type { View } from '../pages/dashboard/frame.js';
import type { NoteName } from '../pages/dashboard/parts.js';
import { durationInWords, type Mistake } from '../pages/form.js';
import type { AccountRow } from '../store/account-rows.js';
import { noteCookie, readNote } from './note-cookie.js';

/** Somebody who is signed in, at a page of the dashboard. It acts for the account, as an account token does. */
export interface Visit {
  readonly context: ServiceContext;
  readonly browser: Browser;
  readonly account: AccountRow;
  readonly actor: AccountActor;
  readonly query: Parameters;
  /** What the form before this page has done. */
  readonly note: NoteName | undefined;
  /** The part of the address by that name. */
  part(name: string): string;
  /** What every form of the page must carry. */
  readonly csrf: string;
  readonly request: FastifyRequest;
  /** What is wrong with what was typed as the password of the account; undefined: nothing. */
  findMistakeIn(password: string, field: string): Promise<Refusal | undefined>;
}

/** What a page row answers: a page, the way to another one after a form has taken effect, or a file to keep. */
export type DashboardAnswer =
  | { readonly kind: 'page'; readonly view: View; readonly status?: number; readonly headers?: AnswerHeaders }
  | { readonly kind: 'moved'; readonly to: string; readonly headers?: AnswerHeaders }
  /** A page outside the dashboard, for somebody who has left it. */
  | { readonly kind: 'sheet'; readonly html: string }
  | { readonly kind: 'download'; readonly filename: string; readonly json: AsyncIterable<string> };
export type AnswerHeaders = Readonly<Record<string, string | string[]>>;

/** One address of the dashboard: what it shows, and what its form does. Nothing changes by being shown. */
export interface PageRow {
  readonly path: string;
  readonly show?: (visit: Visit) => Promise<DashboardAnswer>;
  /** The form came from a page of this service, sent by the browser that was shown it. */
  readonly act?: (visit: Visit, form: Parameters) => Promise<DashboardAnswer>;
  /** The form again, with what was typed into it and why it was refused. */
  readonly again?: (visit: Visit, form: Parameters, refusal: Refusal) => Promise<DashboardAnswer>;
}

/** Why a form was refused. */
export interface Refusal {
  readonly mistakes: readonly Mistake[];
  readonly status: number;
  /** When the form can be sent again. */
  readonly retryAfterS?: number | undefined;
}

/** A form that came too soon. */
export function tooMany(said: string, retryAfterS: number): Refusal {
  return { mistakes: [{ message: `${said} Try again in ${durationInWords(retryAfterS)}.` }], status: 429, retryAfterS };
}

export const mistaken = (...mistakes: readonly Mistake[]): Refusal => ({ mistakes, status: 400 });

export function page(view: View, more: { status?: number; headers?: AnswerHeaders } = {}): DashboardAnswer {
  return { kind: 'page', view, ...more };
}

/** The page of a form that was refused. */
export function refused(view: View, { status, retryAfterS }: Refusal): DashboardAnswer {
  return page(view, { status, ...(retryAfterS !== undefined && { headers: { 'retry-after': String(retryAfterS) } }) });
}

export function moved(to: string, headers: AnswerHeaders = {}): DashboardAnswer {
  return { kind: 'moved', to, headers };
}

export function withHeaders(answer: DashboardAnswer, headers: AnswerHeaders): DashboardAnswer {
  return answer.kind === 'download' || answer.kind === 'sheet'
    ? answer
    : { ...answer, headers: { ...answer.headers, ...headers } };
}

/** Leads to another page, which says once what was done. No address holds that, so a reload or a link does not say it again. */
export function movedWithNote({ context }: Pick<Visit, 'context'>, to: string, name: NoteName): DashboardAnswer {
  return moved(to, { 'set-cookie': noteCookie(context.settings.addresses.webUrl, name) });
}

/** Undefined: nobody is signed in in this browser. */
export async function readVisit(server: AuthorizationServer, request: FastifyRequest): Promise<Visit | undefined> {
  const { context } = server;
  const browser = readBrowser(server, request);
  const account = await context.database.read((query) => findAccountOf(server, query, browser));
  if (browser === undefined || account === undefined) return undefined;
  const parts = request.params as Readonly<Record<string, string>>;
  return {
    context,
    browser,
    account,
    actor: { kind: 'account', accountId: account.id, scopes: ['account:read', 'account:agents:read'] },
    query: readParameters(queryOf(request.raw.url ?? '')),
    note: readNote(context.settings.addresses.webUrl, request),
    part: (name) => parts[name] ?? '',
    csrf: browser.csrfFor(undefined),
    request,
    async findMistakeIn(password, field) {
      const checked = await checkPassword(server, request, { username: account.username, password });
      if (checked.kind === 'right') return undefined;
      if (checked.kind === 'wrong') return mistaken({ field, message: 'The password is not right.' });
      return tooMany('Too many attempts.', checked.waitS);
    },
  };
}
