/** Where `asp serve` offers its WebSocket (wire: Live delivery). */
export const SOCKET_PATH = '/connect';

/** A header of the handshake's answer: the epoch of the data whose events the socket sends (wire: Sessions, epochs). */
export const EPOCH_HEADER = 'asp-epoch';

/** What a client may send, and what it gets back (wire: Live delivery, client frames). */
export const PING_FRAME = '{"type":"ping"}';
/** The answer to {@link PING_FRAME}. */
export const PONG_FRAME = '{"type":"pong"}';

/** Why the service closes a socket (wire: Live delivery, close codes). */
export const CLOSE_CODE = {
  /** The access token expired, or was revoked: refresh and reconnect. */
  tokenEnded: 1008,
  /** The service is shutting down: reconnect. */
  shuttingDown: 1001,
  /** An internal error in the service. */
  fault: 1011,
  /** The reader is too slow; its cursor stays where it was. */
  tooSlow: 1013,
  /** The service has lost contact with its data, or the others considered it dead: reconnect. */
  outOfTouch: 1013,
  /** Far more frames than a client has a reason to send. */
  tooManyFrames: 1013,
  /** A frame above the limit. */
  frameTooLarge: 1009,
} as const;

/** Each of them once, in order. */
export const CLOSE_CODES = [...new Set(Object.values(CLOSE_CODE))].sort((one, two) => one - two);
