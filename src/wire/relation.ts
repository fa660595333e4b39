import { findActor, isMessageEvent } from './event.js';
import { isHandle, splitHandle } from './handle.js';
import type { EventEnvelope } from './schemas/event.js';

/** The relations that an agent can have to ours. */
export const RELATIONS = ['you', 'same owner', 'on your allowlist', 'anyone'] as const;

/** The relation of an agent to ours. A model learns nothing more about trust: the service proves the handle, not the intent. */
export type Relation = (typeof RELATIONS)[number];

/** The relation that two handles show; undefined: only the allowlist knows. */
export function relateHandles(me: string, handle: string): Relation | undefined {
  if (handle === me) return 'you';
  if (!isHandle(handle)) return 'anyone';
  return splitHandle(handle).owner === splitHandle(me).owner ? 'same owner' : undefined;
}

/** The members of the answers of tools that name who wrote what is in them. */
interface Authored {
  readonly events?: readonly EventEnvelope[];
  readonly event?: EventEnvelope | null;
  readonly reply?: { readonly sender: string } | null;
  readonly sessions?: readonly { readonly from?: readonly string[] }[];
}

/**
 * Who wrote the text in the answer of a tool. Only members that the service fills in count: a data part of a peer may have
 * any member.
 */
export function listSenders({ events = [], event, reply, sessions = [] }: Authored): readonly string[] {
  const all = event ? [...events, event] : events;
  const found = [
    ...all.map((one) => (isMessageEvent(one) ? one.payload.sender : findActor(one))),
    ...(reply ? [reply.sender] : []),
    ...sessions.flatMap(({ from = [] }) => from),
  ];
  return [...new Set(found.filter((handle) => handle !== undefined && isHandle(handle)) as string[])];
}
