const HOST = /^(?:localhost|127(?:\.\d{1,3}){3}|::1|\[::1\])$/;
const PEER = /^(?:::1|(?:::ffff:)?127(?:\.\d{1,3}){3})$/;

/** Whether a host, as written in an address, is this machine itself. */
export function isLoopbackHost(host: string): boolean {
  return HOST.test(host);
}

/** Whether the other end of a connection is on this machine. */
export function isLoopbackPeer(address: string | undefined): boolean {
  return PEER.test(address ?? '');
}
