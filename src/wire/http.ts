/** Where the health answer is, below the service root, without authentication (wire: Common rules, health). */
export const HEALTH_PATH = '/health';

/** Answers like health while the service accepts requests and the database responds, otherwise 503 (D-61). */
export const READY_PATH = '/ready';

/** Where the service describes its REST interface, as OpenAPI 3.1. */
export const OPENAPI_PATH = '/openapi.json';

/** Identifies a request in its answer and in the log of the service (wire: Common rules, request ids). */
export const REQUEST_ID_HEADER = 'x-request-id';

const REQUEST_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{7,63}$/;

/** Whether a service or a client accepts an id that someone else chose. Other texts could break a line of the log. */
export function isRequestId(text: string): boolean {
  return REQUEST_ID.test(text);
}
