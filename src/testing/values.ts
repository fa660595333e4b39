import { durationMs } from '../kit/duration.js';
import { isHandle } from '../wire/handle.js';

/** A handle with its `@`. */
export function readHandle(text: string): string {
  const handle = text.startsWith('@') ? text : `@${text}`;
  if (isHandle(handle)) return handle;
  throw new TypeError(`'${text}' is not a handle: write the owner and the name in lower case, such as alice.bot.`);
}

/** A duration in milliseconds. */
export function readMs(what: string, duration: string | number): number {
  const ms = typeof duration === 'number' ? duration : durationMs(duration);
  if (ms !== undefined && Number.isFinite(ms) && ms >= 0) return ms;
  throw new TypeError(`${what} '${duration}' is not a duration: write 500ms, 30s, 10m, 2h, 7d or milliseconds.`);
}
