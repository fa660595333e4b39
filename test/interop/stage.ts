import { expect } from 'vitest';

import { callApi } from '../support/actors.js';
import { mustSucceed } from '../support/answers.js';
import { newPerson, openBrowser, type Page } from '../support/browser.js';
import { freePort } from '../support/free-port.js';
import { field, text } from '../support/json.js';
import type { Place } from '../support/oauth.js';
import { allow, signUpAndAllow } from '../support/person.js';
import { openSocket } from '../support/socket.js';

/** What a person's browser returns to the application. */
export interface Approval {
  /** The whole redirect address, including the code. */
  readonly callback: URL;
  /** The agent that the application now acts as. */
  readonly handle: string;
  /** Approves another request of an application as the same person, for the same agent. */
  again(authorizationUrl: string | URL): Promise<URL>;
}

/** Follows the application's link as a person, creates an account and an agent, and approves. */
export async function approve(authorizationUrl: string | URL): Promise<Approval> {
  const person = newPerson('person');
  const browser = openBrowser();
  const callback = sentBack(await signUpAndAllow(browser, String(authorizationUrl), person));
  const again = async (url: string | URL): Promise<URL> =>
    sentBack(await allow(browser, await browser.open(String(url)), { agent: person.handle }));
  return { callback, handle: person.handle, again };
}

function sentBack({ answer, text: seen }: Page): URL {
  const { location } = answer.headers;
  if (location === undefined) throw new Error(`not sent back: ${answer.status} ${seen}`);
  return new URL(location);
}

/** Expects a library's tokens to work: makes a call over REST and receives its event over the socket. */
export async function mustTalk(
  place: Place,
  handle: string,
  tokens: { readonly rest: string; readonly socket: string },
): Promise<void> {
  const call = (method: string, path: string, body?: unknown) =>
    callApi(place.baseUrl, tokens.rest, method, path, body);
  expect(field(mustSucceed(await call('GET', '/agents/me')), 'canonical_handle')).toBe(handle);
  const socket = await openSocket(place.wsUrl, { authorization: `Bearer ${tokens.socket}` });
  if ('status' in socket) throw new Error(`no socket: ${socket.status} ${socket.text}`);
  const created = mustSucceed(await call('POST', '/sessions', { initial_message: { content: 'hello' } }), 201);
  const event = await socket.mustReceiveEvent('session.message', text(created, 'session_id'));
  expect(field(event, 'payload.content')).toBe('hello');
  await socket.close();
}

/** Returns a local address on which nothing listens, for applications that read the redirect elsewhere. */
export async function freeRedirectUri(host = '127.0.0.1'): Promise<string> {
  return `http://${host}:${await freePort()}/callback`;
}
