// Wine 8 does not know the option TCP_KEEPALIVE (WSAENOPROTOOPT). Node.js then fails to connect at all.
import { Socket } from 'node:net';

Socket.prototype.setKeepAlive = function setKeepAlive() {
  return this;
};
