/** One line of what happens on the network, already redacted. */
export interface TraceEntry {
  readonly kind: 'request' | 'answer' | 'failure' | 'retry' | 'socket';
  readonly text: string;
}

/** Receives the trace of `--debug`. */
export type Trace = (entry: TraceEntry) => void;

const SHOWN_BYTES_MAX = 2048;
const SECRET_NAME =
  /^(authorization|proxy-authorization|cookie|set-cookie|code_verifier|.*token|.*secret|password|passphrase|signature|sig|assertion|.*api[-_]key)$/i;
/** In JSON these are the code of an error and the state of a session. */
const FORM_SECRET_NAME = /^(code|state)$/i;
const PUBLIC_NAME = /^(token_type|token_type_hint)$/i;
const TOKEN = /eyJ[\w-]{8,}(\.[\w-]*)*/g;
const BEARER = /\b(Bearer|Basic)\s+(?![\w-]+=")[\w.~+/=-]+/gi;
const USER_INFO = /(\b[a-z][a-z0-9+.-]*:\/\/)[^\s/@"'<>]+@/gi;
const QUERY = /([?&;][\w.-]+=)[^&\s"'<>]+/g;

const PUBLIC_QUERY = /^[?&;](limit|after_sequence)=\d+$/;

/** Shorter ones are words that stand anywhere. */
const SECRET_MIN_LENGTH = 8;

/** `text` without bearer tokens, JSON web tokens, passwords in addresses and query values. */
export function redactText(text: string): string {
  return text
    .replace(BEARER, '$1 [redacted]')
    .replace(TOKEN, '[redacted]')
    .replace(USER_INFO, '$1[redacted]@')
    .replace(QUERY, (found, name: string) => (PUBLIC_QUERY.test(found) ? found : `${name}[redacted]`));
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
    .map(
      ([name, value]) =>
        `${name}=${isSecretName(name) || FORM_SECRET_NAME.test(name) ? '[redacted]' : redactText(value)}`,
    )
    .join('&');
}

/** The secrets that a request carries: its credential, and what its body gives such a name. */
export function secretsOf(
  headers: Readonly<Record<string, string>> | undefined,
  body?: string | Uint8Array | AsyncIterable<Uint8Array>,
): string[] {
  const credential = headers?.['authorization']?.replace(/^\S+\s+/, '') ?? '';
  return [credential, ...(typeof body === 'string' ? secretsOfBody(headers?.['content-type'], body) : [])].filter(
    (secret) => secret.length >= SECRET_MIN_LENGTH,
  );
}

function secretsOfBody(contentType: string | undefined, body: string): string[] {
  if (contentType?.includes('x-www-form-urlencoded') === true)
    return [...new URLSearchParams(body)].flatMap(([name, value]) =>
      isSecretName(name) || FORM_SECRET_NAME.test(name) ? [value] : [],
    );
  return [];
}

/** `text` in which an answer repeats none of these. */
export function redactSecrets(text: string, secrets: readonly string[]): string {
  return secrets.reduce(
    (rest, secret) => rest.replaceAll(secret, '[redacted]').replaceAll(encodeURIComponent(secret), '[redacted]'),
    text,
  );
}

function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name) && !PUBLIC_NAME.test(name);
}
