import { JSON_DEPTH_MAX } from '../../wire/limit.js';
import { ServiceError } from '../service-error.js';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

const LONE_SURROGATE = /\p{Cs}/u;
const SURROGATE_ESCAPE = /\\ud[89a-f]/i;

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * A JSON body. UTF-8 only, at most 64 levels deep. `__proto__` becomes an own property like any other, and of two members
 * with one name the last counts (RFC 8259 §4). Half of a surrogate pair is no text, and is refused (RFC 8259 §8.2).
 */
export function parseJson(bytes: Uint8Array): unknown {
  if (isTooDeep(bytes)) throw new ServiceError('VALIDATION_ERROR', `The JSON is nested deeper than ${JSON_DEPTH_MAX}.`);
  const value = parse(bytes);
  if (value.mayHoldSurrogates && holdsLoneSurrogate(value.json))
    throw new ServiceError('VALIDATION_ERROR', 'The JSON holds half of a surrogate pair.');
  return value.json;
}

function parse(bytes: Uint8Array): { json: unknown; mayHoldSurrogates: boolean } {
  try {
    const text = utf8.decode(bytes);
    return { json: JSON.parse(text), mayHoldSurrogates: SURROGATE_ESCAPE.test(text) };
  } catch {
    throw new ServiceError('VALIDATION_ERROR', 'The body is not valid JSON.');
  }
}

function holdsLoneSurrogate(value: unknown): boolean {
  if (typeof value === 'string') return LONE_SURROGATE.test(value);
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(value)) return value.some(holdsLoneSurrogate);
  return Object.entries(value).some(([key, member]) => LONE_SURROGATE.test(key) || holdsLoneSurrogate(member));
}

/** Counted before parsing, so that no recursive reader ever meets a deeper text. */
function isTooDeep(bytes: Uint8Array): boolean {
  let depth = 0;
  let isInString = false;
  for (let index = 0; index < bytes.length; index += 1) {
    const byte = bytes[index];
    if (isInString) {
      if (byte === BACKSLASH) index += 1;
      else if (byte === QUOTE) isInString = false;
    } else if (byte === QUOTE) {
      isInString = true;
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      depth += 1;
      if (depth > JSON_DEPTH_MAX) return true;
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      depth -= 1;
    }
  }
  return false;
}
