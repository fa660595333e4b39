import type { FastifyRequest } from 'fastify';

import { isNoteName, type NoteName } from '../pages/dashboard/parts.js';

const LIFETIME_S = 30;

/** The cookie by which the page after a form says once what the form has done. */
export function noteCookie(webUrl: string, name: NoteName): string {
  return cookie(webUrl, name, LIFETIME_S);
}

/** Takes the note away from the browser that was shown it. */
export function noNoteCookie(webUrl: string): string {
  return cookie(webUrl, '', 0);
}

export function readNote(webUrl: string, request: FastifyRequest): NoteName | undefined {
  const start = `${cookieName(webUrl)}=`;
  const pair = (request.headers.cookie ?? '').split(/; */).find((one) => one.startsWith(start));
  const name = pair?.slice(start.length);
  return name !== undefined && isNoteName(name) ? name : undefined;
}

function cookie(webUrl: string, value: string, lifetimeS: number): string {
  const pair = `${cookieName(webUrl)}=${value}; Path=/dashboard; Max-Age=${lifetimeS}; HttpOnly; SameSite=Strict`;
  return webUrl.startsWith('https:') ? `${pair}; Secure` : pair;
}

/** Cookies know no ports, so two services on one loopback address need two names. */
const cookieName = (webUrl: string): string => `asp_note_${new URL(webUrl).port || '0'}`;
