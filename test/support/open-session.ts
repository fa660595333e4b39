import { expect } from 'vitest';
import type { Actor } from './actors.js';

/** The agents of the check, and how one of them sends a message to the other one's handle. */
interface Pair {
  readonly me: Actor;
  readonly other: Actor;
  readonly third: Actor;
  /** Returns the session that the message is in, or throws with the words of the refusal. */
  send(): Promise<string>;
}

/** Checks which session a message to a handle continues. Every way to send one must choose the same. */
export async function checkContinues({ me, other, third, send }: Pair): Promise<void> {
  const group = await me.mustCreate({ invite: [other.handle, third.handle] });
  const invitation = await other.mustCreate({ invite: [me.handle] });
  const first = await send();
  expect([group, invitation]).not.toContain(first);
  expect(await send()).toBe(first);
  await other.mustJoin(first);
  expect(await send()).toBe(first);
  await me.mustJoin(invitation);
  await expect(send()).rejects.toThrow(first);
  await expect(send()).rejects.toThrow(invitation);
  await other.mustLeave(invitation);
  expect(await send()).toBe(first);
  await me.mustEnd(first);
  const second = await send();
  expect([group, invitation, first]).not.toContain(second);
  await me.mustLeave(second);
  const last = await send();
  expect([group, invitation, first, second]).not.toContain(last);
}
