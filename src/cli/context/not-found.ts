import { RequestError } from '../../client/client.js';
import { ExplainedError } from './explain.js';

/** What was asked about is not there, and it was not the service that said so: exit 3 in the command's own words. */
export function notFound(message: string, why: string, next?: readonly string[]): ExplainedError {
  const about = {
    messages: { NOT_FOUND: message },
    reasons: { NOT_FOUND: why },
    ...(next !== undefined && { next: { NOT_FOUND: next } }),
  };
  return new ExplainedError(about, new RequestError({ code: 'NOT_FOUND', message }));
}
