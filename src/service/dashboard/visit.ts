import type { FastifyRequest } from 'fastify';

import { type Browser, findAccountOf, type PageServer, readBrowser } from '../authorization-server/account/browser.js';
import { type Parameters, queryOf, readParameters } from '../authorization-server/parameters.js';
import type { AccountActor, ServiceContext } from '../context.js';
import type { View } from '../pages/dashboard/frame.js';
import type { AccountRow } from '../store/account-rows.js';

/** Somebody who is signed in, at a page of the dashboard. It acts for the account, as an account token does. */
export interface Visit {
  readonly context: ServiceContext;
  readonly browser: Browser;
  readonly account: AccountRow;
  readonly actor: AccountActor;
  readonly query: Parameters;
  /** The part of the address by that name. */
  part(name: string): string;
  /** What every form of the page must carry. */
  readonly csrf: string;
  readonly request: FastifyRequest;
}

/** What a page row answers: a page, or the way to another one after a form has taken effect. */
export type DashboardAnswer =
  | { readonly kind: 'page'; readonly view: View; readonly status?: number; readonly headers?: AnswerHeaders }
  | { readonly kind: 'moved'; readonly to: string; readonly headers?: AnswerHeaders };
export type AnswerHeaders = Readonly<Record<string, string | string[]>>;

/** One address of the dashboard: what it shows, and what its form does. Nothing changes by being shown. */
export interface PageRow {
  readonly path: string;
  readonly show?: (visit: Visit) => Promise<DashboardAnswer>;
  /** The form came from a page of this service, sent by the browser that was shown it. */
  readonly act?: (visit: Visit, form: Parameters) => Promise<DashboardAnswer>;
}

export function page(view: View, more: { status?: number; headers?: AnswerHeaders } = {}): DashboardAnswer {
  return { kind: 'page', view, ...more };
}

export function moved(to: string, headers: AnswerHeaders = {}): DashboardAnswer {
  return { kind: 'moved', to, headers };
}

/** Undefined: nobody is signed in in this browser. */
export async function readVisit(server: PageServer, request: FastifyRequest): Promise<Visit | undefined> {
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
    part: (name) => parts[name] ?? '',
    csrf: browser.csrfFor(undefined),
    request,
  };
}
