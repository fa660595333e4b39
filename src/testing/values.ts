import { isHandle, toHandle } from '../wire/handle.js';

/** A handle with its `@`. */
export function readHandle(text: string): string {
  const handle = toHandle(text);
  if (isHandle(handle)) return handle;
  throw new TypeError(`'${text}' is not a handle: write the owner and the name in lower case, such as alice.bot.`);
}
