import type { ServerResponse } from 'node:http';

/**
 * Whether the answer of a request was handed to the operating system before its connection went away. Only `finish`
 * says so: `writableFinished` is true of a response that has lost its socket, too.
 */
export function watchDelivery(response: ServerResponse): Promise<boolean> {
  return new Promise((resolve) => {
    response.once('finish', () => resolve(true));
    response.once('close', () => resolve(false));
    if (response.destroyed) resolve(false);
  });
}
