import { type Outcome, RequestError } from './request-error.js';

const TLS_CODE = /^(CERT_|ERR_TLS|ERR_SSL|EPROTO$|UNABLE_TO_|DEPTH_ZERO|SELF_SIGNED|HOSTNAME_MISMATCH|UNSUPPORTED_)/;

/** What a connection that failed means, in our own codes; the cause keeps the system's. */
export function failureOf(error: unknown, origin: string, outcome: Outcome, signal?: AbortSignal): RequestError {
  if (error instanceof RequestError) return error;
  if (signal?.aborted === true) return abortion(signal, outcome);
  const code = codeOf(error);
  if (TLS_CODE.test(code))
    return new RequestError({
      code: 'ASP_TLS',
      message: `The certificate or the encryption of ${origin} was not accepted (${code}).`,
      isRetryable: false,
      outcome: 'not_applied',
      cause: error,
    });
  const why = code === '' ? '' : ` (${code})`;
  return new RequestError({
    code: 'ASP_UNREACHABLE',
    message:
      outcome === 'unknown' ? `The connection to ${origin} broke${why}.` : `${origin} could not be reached${why}.`,
    outcome,
    cause: error,
  });
}

/** Whether nobody listened at the address: the request reached no program. */
export function isRefusedConnection(error: unknown): boolean {
  return error instanceof RequestError && error.code === 'ASP_UNREACHABLE' && codeOf(error.cause) === 'ECONNREFUSED';
}

/** Why a certificate was not accepted, and what helps; undefined where the encryption itself failed. */
export function certificateAdvice({ cause }: RequestError): string | undefined {
  const code = codeOf(cause);
  if (/^CERT_(HAS_EXPIRED|NOT_YET_VALID)$/.test(code))
    return 'the certificate is not valid today, or the clock of this machine is wrong.';
  if (/ALTNAME|HOSTNAME/.test(code)) return 'the certificate is for another name than the address has.';
  if (/SELF_SIGNED|UNABLE_TO_|UNTRUSTED/.test(code))
    return 'nobody known here vouches for it: NODE_EXTRA_CA_CERTS=<file.pem> names an authority of your own.';
  return undefined;
}

/** What an aborted signal means: the deadline when its reason says so, else the caller's wish. */
export function abortion(signal: AbortSignal, outcome: Outcome): RequestError {
  const reason: unknown = signal.reason;
  if (reason instanceof RequestError && reason.code === 'ASP_TIMEOUT') return timeout(outcome, reason.message);
  if (reason instanceof Error && reason.name === 'TimeoutError') return timeout(outcome);
  return new RequestError({
    code: 'ASP_ABORTED',
    message: 'The request was given up.',
    isRetryable: false,
    outcome,
    cause: reason,
  });
}

/** The deadline passed, or the other side was silent for too long. */
export function timeout(outcome: Outcome, message = 'There was no answer in time.'): RequestError {
  return new RequestError({ code: 'ASP_TIMEOUT', message, outcome });
}

function codeOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return codeOf(error.errors[0]);
  if (!(error instanceof Error)) return '';
  return 'code' in error && typeof error.code === 'string' ? error.code : '';
}
