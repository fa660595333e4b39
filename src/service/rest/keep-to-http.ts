import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';

/** A request with which a client has proposed another protocol; `head` is what came behind its headers. */
export interface Proposal {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
}

const OF_THE_PROPOSAL: ReadonlySet<string> = new Set(['upgrade', 'http2-settings']);

/**
 * Answers a proposed upgrade by going on as before (RFC 9110 §7.8): Java's client sends `Upgrade: h2c` with its first request. Node
 * has let go of the connection, so the server is given it again, with the request as it would have been without the proposal.
 */
export function keepToHttp(server: Server, { request, socket, head }: Proposal): void {
  if (socket.destroyed) return;
  const lines = [`${request.method} ${request.url} HTTP/${request.httpVersion}`];
  for (const [name, value] of fieldsOf(request)) {
    const kept = name.toLowerCase() === 'connection' ? withoutProposal(value) : value;
    if (!OF_THE_PROPOSAL.has(name.toLowerCase())) lines.push(`${name}: ${kept}`);
  }
  socket.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]));
  server.emit('connection', socket);
}

function* fieldsOf({ rawHeaders }: IncomingMessage): Generator<readonly [name: string, value: string]> {
  for (let index = 0; index + 1 < rawHeaders.length; index += 2)
    yield [rawHeaders[index] ?? '', rawHeaders[index + 1] ?? ''];
}

function withoutProposal(connection: string): string {
  const options = connection.split(',').map((option) => option.trim());
  return options.filter((option) => !OF_THE_PROPOSAL.has(option.toLowerCase())).join(', ');
}
