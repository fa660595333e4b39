import * as z from 'zod/mini';

import { abortOnIssue, lazily } from './lazily.js';

const PART = '[a-z0-9_-]+';
const HANDLE_PATTERN = new RegExp(`^@${PART}\\.${PART}$`);
const HANDLE_PART_PATTERN = new RegExp(`^${PART}$`);
const OWNER_GLOB_PATTERN = new RegExp(`^@${PART}\\.\\*$`);

/** The longest handle the service stores, in characters. The specification names no bound; an unbounded one invites abuse. */
export const HANDLE_MAX_LENGTH = 130;

/** An agent's address, `@owner.agent_name`: lower case, exactly one dot (spec: Resources, Handle). */
export const Handle = lazily(() =>
  z
    .string()
    .check(
      z.maxLength(HANDLE_MAX_LENGTH),
      z.regex(HANDLE_PATTERN, 'a handle has the form @owner.agent_name'),
      abortOnIssue(),
    ),
);
export type Handle = z.infer<typeof Handle>;

/** One half of a handle: the owner's name or the agent's local name. */
export const HandlePart = lazily(() =>
  z.string().check(z.minLength(1), z.maxLength(64), z.regex(HANDLE_PART_PATTERN, 'only a-z, 0-9, _ and - are allowed')),
);

/** Every agent of one owner, `@owner.*`, as an allowlist entry (wire: Agents, search, trust). */
export const OwnerGlob = lazily(() => z.string().check(z.maxLength(HANDLE_MAX_LENGTH), z.regex(OWNER_GLOB_PATTERN)));
export type OwnerGlob = z.infer<typeof OwnerGlob>;

/** Whether `text` is a handle in its canonical form. */
export function isHandle(text: string): text is Handle {
  return text.length <= HANDLE_MAX_LENGTH && HANDLE_PATTERN.test(text);
}

/** Whether `text` stands for every agent of an owner, `@owner.*`. */
export function isOwnerGlob(text: string): text is OwnerGlob {
  return text.length <= HANDLE_MAX_LENGTH && OWNER_GLOB_PATTERN.test(text);
}

/** The two halves of a canonical handle. */
export function splitHandle(handle: Handle): { owner: string; name: string } {
  const dot = handle.indexOf('.');
  return { owner: handle.slice(1, dot), name: handle.slice(dot + 1) };
}

/** The canonical handle of `owner` and `name`. */
export function joinHandle(owner: string, name: string): Handle {
  return `@${owner}.${name}`;
}

/** The glob that stands for every agent of the owner of `handle`. */
export function ownerGlobOf(handle: Handle): OwnerGlob {
  return `@${splitHandle(handle).owner}.*`;
}
