import { createHash } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { randomToken } from '../../../kit/random.js';
import { ATTACHMENT_MAX_BYTES, ATTACHMENTS_PER_MESSAGE_MAX, MESSAGE_BODY_MAX_BYTES } from '../../../wire/limit.js';
import type { ActivityKind } from '../../agents/activity.js';
import type { UploadPart } from '../../attachments/receive-upload.js';
import type { AccountActor, ServiceContext } from '../../core/context.js';
import type { Transaction } from '../../core/database.js';
import { ServiceError } from '../../core/errors.js';
import { withIdempotency } from '../../messaging/idempotency.js';
import { getBody, OAuthError, type Parameters, readParameters, readQuery } from '../../oauth/parameters.js';
import type { AuthorizationServer } from '../../oauth/server.js';
import type { AccountRow } from '../../store/accounts.js';
import { type PagedList, type Position, readPage } from '../../store/cursor.js';
import { type Browser, findAccountOf, readBrowser } from '../browser.js';
import { describeDuration, type Mistake } from '../form.js';
import type { Html } from '../html.js';
import { checkPasskey } from '../passkeys.js';
import { checkPassword } from '../passwords.js';
import {
  FROM_NEEDS,
  FROM_TRAFFIC,
  isNoteName,
  type Listed,
  NEEDS_PATH,
  type NoteName,
  TRAFFIC_PATH,
  type View,
} from './frame.js';

const LIFETIME_S = 30;
/** As long as it may take to sign in. */
const SIGNED_OUT_LIFETIME_S = 600;

/** The cookie with which the next page shows the result of a form once. `about` is the object of that form, if it can be undone. */
function noteCookie(webUrl: string, name: NoteName, about?: string): string {
  return cookie(webUrl, about === undefined ? name : `${name}:${about}`, LIFETIME_S);
}

/** The cookie with which the first page after the next sign-in says that a form did nothing. */
export function signedOutCookie(webUrl: string): string {
  return cookie(webUrl, 'signed-out' satisfies NoteName, SIGNED_OUT_LIFETIME_S);
}

/** Deletes the note from the browser that displayed it. */
export function noNoteCookie(webUrl: string): string {
  return cookie(webUrl, '', 0);
}

interface ShownNote {
  /** The result of the previous form. */
  readonly note: NoteName | undefined;
  /** The object of that form, if it can be undone or the note names it. */
  readonly noteAbout: string | undefined;
}

function readNote(webUrl: string, request: FastifyRequest): ShownNote {
  const start = `${cookieName(webUrl)}=`;
  const pair = (request.headers.cookie ?? '').split(/; */).find((one) => one.startsWith(start));
  const [name = '', about] = pair?.slice(start.length).split(':') ?? [];
  return isNoteName(name) ? { note: name, noteAbout: about } : { note: undefined, noteAbout: undefined };
}

function cookie(webUrl: string, value: string, lifetimeS: number): string {
  const pair = `${cookieName(webUrl)}=${value}; Path=/dashboard; Max-Age=${lifetimeS}; HttpOnly; SameSite=Strict`;
  return webUrl.startsWith('https:') ? `${pair}; Secure` : pair;
}

/** Cookies ignore ports, so two services on one loopback address need two names. */
const cookieName = (webUrl: string): string => `asp_note_${new URL(webUrl).port || '0'}`;

/** A signed-in visitor of the dashboard. It acts for the account, like an account token. */
export interface Visit extends ShownNote {
  readonly context: ServiceContext;
  readonly browser: Browser;
  readonly account: AccountRow;
  readonly actor: AccountActor;
  readonly query: Parameters;
  /** The part of the address with that name. */
  part(name: string): string;
  /** A token that every form of the page must carry. */
  readonly csrf: string;
  readonly request: FastifyRequest;
  /**
   * Files can take longer to arrive than the sign-in of their browser lasts.
   *
   * @throws ServiceError `UNAUTHORIZED` if the browser is no longer signed in
   */
  requireSignedIn(): Promise<void>;
  /** The problem with the typed account password; undefined: none. */
  findMistakeIn(password: string, field: string): Promise<Refusal | undefined>;
  /** The problem with the answer of one of the account's passkeys; undefined: none. */
  findMistakeInPasskey(text: string): Promise<Refusal | undefined>;
}

/** The answer of a page: a page, a redirect after a form has taken effect, or a download. */
export type DashboardAnswer =
  | { readonly kind: 'page'; readonly view: View; readonly status?: number; readonly headers?: AnswerHeaders }
  | {
      readonly kind: 'moved';
      readonly to: string;
      readonly headers?: AnswerHeaders;
      /** The affected object, for the activity log. Null: nothing changed. Undefined: the object in the address. */
      readonly affected?: string | null;
    }
  /** A page whose texts take the place of `REST`, read and rendered while it is sent. */
  | { readonly kind: 'streamed'; readonly view: View; readonly texts: AsyncIterable<string> }
  /** A page outside the dashboard, for a visitor who has left it. */
  | { readonly kind: 'sheet'; readonly html: string; readonly status?: number }
  | {
      readonly kind: 'download';
      readonly filename: string;
      readonly type: string;
      readonly texts: AsyncIterable<string>;
    };
/** Text of others is escaped, so only the page itself can contain this. */
export const REST: Html = { markup: '<!--rest-->' };
export type AnswerHeaders = Readonly<Record<string, string | string[]>>;

/** A form that was sent. Its files come after its fields, and are read one by one. */
export interface PostedForm extends Parameters {
  files(): AsyncIterable<UploadPart>;
}

/** The first few files are read, and one more, which is refused. Line ends count twice. */
const FORM_LIMITS = {
  fileSize: ATTACHMENT_MAX_BYTES + 1,
  files: ATTACHMENTS_PER_MESSAGE_MAX + 1,
  fields: 20,
  fieldSize: 2 * MESSAGE_BODY_MAX_BYTES,
  fieldNameSize: 100,
  headerPairs: 20,
} as const;

/** Reads the fields of a form, up to its first file. */
export async function readPostedForm(request: FastifyRequest): Promise<PostedForm> {
  if (!request.isMultipart()) return { ...readParameters(getBody(request)), async *files() {} };
  const parts = request.parts({ limits: FORM_LIMITS });
  const fields = new URLSearchParams();
  let next = await parts.next();
  let length = 0;
  for (; next.done !== true && next.value.type === 'field'; next = await parts.next()) {
    const { valueTruncated: isCut } = next.value;
    const value = String(next.value.value);
    length += value.length;
    if (isCut || length > FORM_LIMITS.fieldSize)
      throw new OAuthError('invalid_request', 'This form is too large.', undefined, { status: 413 });
    fields.append(next.value.fieldname, value);
  }
  const form = readParameters(fields.toString());
  return {
    ...form,
    async *files() {
      for (; next.done !== true; next = await parts.next()) if (next.value.type === 'file') yield next.value;
    },
  };
}

/** Reads the rest of a form, so that the connection can be used for the answer. */
export async function discardFiles(form: PostedForm): Promise<void> {
  try {
    for await (const { file } of form.files()) file?.resume();
  } catch {
    // The browser has gone, or sent more than a form may have.
  }
}

/** One address of the dashboard: its page, and the effect of its form. Showing it changes nothing. */
export interface PageRow {
  readonly path: string;
  readonly show?: (visit: Visit) => Promise<DashboardAnswer>;
  /** The form came from a page of this service, in the same browser. */
  readonly act?: (visit: Visit, form: PostedForm) => Promise<DashboardAnswer>;
  /** The entry in the activity log; undefined if the session already shows the change. */
  readonly activity?: ActivityKind | ((form: Parameters) => ActivityKind);
  /** The page of the form with its input and the reason for the refusal; often the same as `show`. */
  readonly again?: (visit: Visit, form: Parameters, refusal: Refusal) => Promise<DashboardAnswer>;
}

/** Why a form was refused. */
export interface Refusal {
  readonly mistakes: readonly Mistake[];
  readonly status: number;
  /** When the form can be sent again. */
  readonly retryAfterS?: number | undefined;
}

/** A form that is shown for the first time. */
export const UNREFUSED: Refusal = { mistakes: [], status: 200 };

/** A form that was sent too soon. */
function tooManyAttempts(retryAfterS: number): Refusal {
  const message = `Too many attempts. Try again in ${describeDuration(retryAfterS)}.`;
  return { mistakes: [{ message }], status: 429, retryAfterS };
}

export const mistaken = (...mistakes: readonly Mistake[]): Refusal => ({ mistakes, status: 400 });

export function page(view: View, more: { status?: number; headers?: AnswerHeaders } = {}): DashboardAnswer {
  return { kind: 'page', view, ...more };
}

/** The page of a form, which may have been refused. */
export function refused(view: View, { status, retryAfterS }: Refusal): DashboardAnswer {
  return page(view, { status, ...(retryAfterS !== undefined && { headers: { 'retry-after': String(retryAfterS) } }) });
}

export function moved(to: string, headers: AnswerHeaders = {}): DashboardAnswer {
  return { kind: 'moved', to, headers };
}

/** The activity log names what the form affected; null: nothing, so it has no entry. */
export function withAffected(answer: DashboardAnswer, affected: string | null): DashboardAnswer {
  return answer.kind === 'moved' ? { ...answer, affected } : answer;
}

export function withHeaders(answer: DashboardAnswer, headers: AnswerHeaders): DashboardAnswer {
  return answer.kind === 'page' || answer.kind === 'moved'
    ? { ...answer, headers: { ...answer.headers, ...headers } }
    : answer;
}

/**
 * Redirects to a page that shows the result once. The result is not in any address, so a reload or a link does not
 * repeat it.
 */
export function movedWithNote(
  { context }: Pick<Visit, 'context'>,
  to: string,
  name: NoteName,
  about?: string,
  cookies: readonly string[] = [],
): DashboardAnswer {
  return moved(to, { 'set-cookie': [noteCookie(context.settings.addresses.webUrl, name, about), ...cookies] });
}

/** The page that a form leads to: its own, or a page that lists things of several agents if it was sent from there. */
export function getBackPath(form: Parameters, own: string): string {
  const from = form.one('from');
  if (from === FROM_NEEDS.from) return NEEDS_PATH;
  return from === FROM_TRAFFIC.from ? TRAFFIC_PATH : own;
}

/** Undefined: this browser is not signed in. */
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
    query: readQuery(request),
    ...readNote(context.settings.addresses.webUrl, request),
    part: (name) => parts[name] ?? '',
    csrf: browser.csrfFor(undefined),
    request,
    async requireSignedIn() {
      const current = await context.database.read((query) => findAccountOf(server, query, browser));
      if (current?.id !== account.id) throw new ServiceError('UNAUTHORIZED');
    },
    async findMistakeIn(password, field) {
      const checked = await checkPassword(server, request, { username: account.username, password });
      if (checked.kind === 'right') return undefined;
      if (checked.kind === 'wrong') return mistaken({ field, message: 'The password is wrong.' });
      return tooManyAttempts(checked.waitS);
    },
    async findMistakeInPasskey(text) {
      const answer = { browser, purpose: 'confirm', text, accountId: account.id } as const;
      const checked = await checkPasskey(server, request, answer);
      if (checked.kind === 'right') return undefined;
      if (checked.kind === 'refused') return tooManyAttempts(checked.waitS);
      return mistaken({ message: 'This passkey does not belong to your account, or the page was open for too long.' });
    },
  };
}

const ROWS_PER_PAGE = 25;

/** The part of a list that the address of a page requests. */
export function readPageRequest({ query }: Visit): { readonly limit: number; readonly cursor?: string } {
  const cursor = readTrail(query.one('after')).at(-1);
  return { limit: ROWS_PER_PAGE, ...(cursor !== undefined && { cursor }) };
}

/** A part of a list as a domain function returns it. */
export function toListed<Item>(visit: Visit, items: readonly Item[], next: string | null): Listed<Item> {
  return { items, next, trail: readTrail(visit.query.one('after')) };
}

/** A link carries the cursors of the parts that led to its own, so that there is a way back. */
function readTrail(after: string | undefined): readonly string[] {
  return after === undefined ? [] : after.split('.');
}

/** The part of a list that the address requests, and the link to the next one. */
export async function readListed<Row, const Start extends Position>(
  visit: Visit,
  list: PagedList<Row, Start>,
): Promise<Listed<Row>> {
  const { rows, next } = await readPage(readPageRequest(visit), list);
  return toListed(visit, rows, next);
}

const KEY_BYTES = 16;

/** The key of a form that creates something, so that sending it twice creates one thing. */
export function createFormKey({ random }: Pick<ServiceContext, 'random'>): string {
  return randomToken(random, KEY_BYTES);
}

/** The identity of a form's contents; a corrected form is a different one. `more` stands for its files. */
export function toKey(form: Parameters, fields: readonly string[], more?: string): string {
  const values = fields.map((field) => form.every(field));
  return createHash('sha256')
    .update(JSON.stringify([form.one('key') ?? '', values, more]))
    .digest('base64url');
}

/** Runs `work` the first time a form is sent, and returns the same result every time. */
export async function once(
  { context, account }: Visit,
  form: { readonly path: string; readonly key: string },
  work: (transaction: Transaction) => Promise<string>,
): Promise<string> {
  const request = { actorId: account.id, endpoint: `POST ${form.path}`, key: form.key, fingerprint: '' };
  const answer = await withIdempotency(context, request, async (transaction) => ({
    status: 201,
    body: await work(transaction),
  }));
  return answer.body;
}
