/** Where the health answer is, below the service root, without authentication (wire: Common rules, health). */
export const HEALTH_PATH = '/health';

/** Answers like health while the service accepts requests and the database responds, otherwise 503 (D-61). */
export const READY_PATH = '/ready';

/** Where the service describes its REST interface, as OpenAPI 3.1. */
export const OPENAPI_PATH = '/openapi.json';
