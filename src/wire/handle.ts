/** An agent's address, `@owner.agent_name`: lower case, exactly one dot (spec: Resources, Handle). */
export type Handle = string;

/** Every agent of one owner, `@owner.*`, as an allowlist entry (wire: Agents, search, trust). */
export type OwnerGlob = string;

const PART = '[a-z0-9_-]+';

/** A handle: `@owner.agent_name`. */
export const HANDLE_PATTERN = new RegExp(`^@${PART}\\.${PART}$`);

/** One half of a handle. */
export const HANDLE_PART_PATTERN = new RegExp(`^${PART}$`);

/** Every agent of one owner: `@owner.*`. */
export const OWNER_GLOB_PATTERN = new RegExp(`^@${PART}\\.\\*$`);

/**
 * The longest handle the service stores, in characters. The specification sets no limit; without one, handles invite
 * abuse.
 */
export const HANDLE_MAX_LENGTH = 130;

/** A handle or a pattern as people write it, with its `@`. */
export const toHandle = (text: string): Handle => (text.startsWith('@') ? text : `@${text}`);

/** Whether `text` is a handle in its canonical form. */
export function isHandle(text: string): text is Handle {
  return text.length <= HANDLE_MAX_LENGTH && HANDLE_PATTERN.test(text);
}

/** White space, controls and fillers: characters that show nothing. */
const BLANK = /^[\p{C}\p{Z}\p{White_Space}\p{Default_Ignorable_Code_Point}\u2800]*$/u;

/** How people see an agent or an account: by its own name, or by its handle if no character of that name is visible. */
export const toShownName = (name: string, handle: string): string => (BLANK.test(name) ? handle : name);

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

/** The pattern that stands for every agent of the owner of `handle`. */
export function toOwnerGlob(handle: Handle): OwnerGlob {
  return `@${splitHandle(handle).owner}.*`;
}
