import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

import { StartError } from './start-error.js';

/** Binds the server; the port it got. */
export async function listen(server: Server, host: string, port: number): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(toStartError(error, host, port)));
    // One spelling of the loopback address, as everything else here spells it.
    server.listen({ host: host === 'localhost' ? '127.0.0.1' : host.replace(/^\[|\]$/g, ''), port }, resolve);
  });
  return (server.address() as AddressInfo).port;
}

function toStartError(error: Error & { code?: string }, host: string, port: number): StartError {
  if (error.code === 'EADDRINUSE')
    return new StartError('PORT_IN_USE', `Port ${port} on ${host} is in use by another program.`, error);
  return new StartError('ADDRESS_NOT_AVAILABLE', `${host}:${port} cannot be listened on (${error.code}).`, error);
}
