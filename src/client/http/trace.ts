/** One line of what happens on the network, already redacted. */
export interface TraceEntry {
  readonly kind: 'request' | 'answer' | 'failure' | 'retry' | 'socket';
  readonly text: string;
}

/** Receives the trace of `--debug`. */
export type Trace = (entry: TraceEntry) => void;

const SHOWN_BYTES_MAX = 2048;
const SECRET_NAME =
  /^(authorization|proxy-authorization|cookie|set-cookie|code|state|code_verifier|client_secret|.*token|secret|password|signature|sig|assertion)$/i;
const PUBLIC_NAME = /^(token_type|token_type_hint)$/i;
const TOKEN = /eyJ[\w-]{8,}(\.[\w-]*)*/g;
const BEARER = /\b(Bearer|Basic)\s+[\w.~+/=-]+/gi;
const QUERY = /([?&;][\w.-]+=)[^&\s"'<>]+/g;

/** `text` without bearer tokens, JSON web tokens and query values. */
export function redactText(text: string): string {
  return text.replace(BEARER, '$1 [redacted]').replace(TOKEN, '[redacted]').replace(QUERY, '$1[redacted]');
}

/** `url` with the values of its query removed: some of them sign, some of them are codes. */
export function redactUrl(url: string): string {
  return redactText(url.replace(/#.*$/, ''));
}

/** Headers on one line, secrets removed. */
export function redactHeaders(headers: Readonly<Record<string, string>>): string {
  return Object.entries(headers)
    .map(([name, value]) => `${name}: ${isSecretName(name) ? '[redacted]' : redactText(value)}`)
    .join('; ');
}

/** A body of JSON or of a form, secrets removed; what is neither is only measured. */
export function redactBody(contentType: string | undefined, body: string | Uint8Array): string {
  const text = typeof body === 'string' ? body : Buffer.from(body).toString('utf8');
  const bytes = `${Buffer.byteLength(text)} bytes`;
  if (contentType?.includes('json') === true) {
    try {
      const json = JSON.stringify(
        JSON.parse(text, (key, value: unknown) => (isSecretName(key) ? '[redacted]' : value)),
      );
      return json.length > SHOWN_BYTES_MAX ? bytes : redactText(json);
    } catch {
      return bytes;
    }
  }
  if (contentType?.includes('x-www-form-urlencoded') !== true) return bytes;
  return [...new URLSearchParams(text)]
    .map(([name, value]) => `${name}=${isSecretName(name) ? '[redacted]' : redactText(value)}`)
    .join('&');
}

function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name) && !PUBLIC_NAME.test(name);
}
