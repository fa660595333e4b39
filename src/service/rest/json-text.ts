import { JSON_DEPTH_MAX, JSON_VALUES_MAX } from '../../wire/limit.js';
import { ServiceError } from '../service-error.js';

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const SPACE = 0x20;
const ZERO = 0x30;
const NINE = 0x39;
const SMALL_E = 0x65;
const CAPITAL_E = 0x45;
/** Any double has fewer digits before its point. */
const DIGITS_MAX = 300;

const LONE_SURROGATE = /\p{Cs}/u;
const SURROGATE_ESCAPE = /\\ud[89a-f]/i;

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Parses a JSON body. UTF-8 only, at most 64 levels deep and 10,000 values. `__proto__` becomes an own property like any other,
 * and of two members with one name the last counts (RFC 8259 §4). Half of a surrogate pair is not text (RFC 8259 §8.2), and a
 * number beyond the range of a double could not be given back: both are refused.
 */
export function parseJson(bytes: Uint8Array): unknown {
  const mayHoldInfinity = scan(bytes);
  let text: string;
  let json: unknown;
  try {
    text = utf8.decode(bytes);
    json = JSON.parse(text);
  } catch {
    throw refuse('The body is not valid JSON.');
  }
  const mayHoldSurrogates = SURROGATE_ESCAPE.test(text);
  if (mayHoldInfinity || mayHoldSurrogates) requirePlainValues(json, mayHoldSurrogates);
  return json;
}

function refuse(message: string): ServiceError {
  return new ServiceError('VALIDATION_ERROR', message);
}

function requirePlainValues(value: unknown, mayHoldSurrogates: boolean): void {
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw refuse('The JSON holds a number that is too large.');
  } else if (typeof value === 'string') {
    if (mayHoldSurrogates && LONE_SURROGATE.test(value)) throw refuse('The JSON holds half of a surrogate pair.');
  } else if (Array.isArray(value)) {
    for (const element of value) requirePlainValues(element, mayHoldSurrogates);
  } else if (typeof value === 'object' && value !== null) {
    for (const [name, member] of Object.entries(value)) {
      if (mayHoldSurrogates) requirePlainValues(name, true);
      requirePlainValues(member, mayHoldSurrogates);
    }
  }
}

/**
 * Refuses a text that is too deep or holds too many values; true when one of its numbers may be beyond a double. It looks at
 * the bytes alone: what follows, from the parser to the schema, costs in proportion to the values, and a recursive reader
 * never meets a deeper text.
 */
function scan(bytes: Uint8Array): boolean {
  let depth = 0;
  let values = 1;
  let digits = 0;
  let mayHoldInfinity = false;
  let isInString = false;
  /** Nothing but blanks since a bracket was opened: what comes next is the first value in it, or its end. */
  let isJustOpened = false;
  for (let index = 0; index < bytes.length; index += 1) {
    const byte = bytes[index] ?? 0;
    if (isInString) {
      if (byte === BACKSLASH) index += 1;
      else if (byte === QUOTE) isInString = false;
      continue;
    }
    if ((byte === SMALL_E || byte === CAPITAL_E) && digits > 0) mayHoldInfinity = true;
    digits = byte >= ZERO && byte <= NINE ? digits + 1 : 0;
    if (digits > DIGITS_MAX) mayHoldInfinity = true;
    if (byte <= SPACE) continue;
    const isEnd = byte === CLOSE_BRACE || byte === CLOSE_BRACKET;
    if (byte === COMMA || (isJustOpened && !isEnd)) {
      values += 1;
      if (values > JSON_VALUES_MAX) throw refuse(`The JSON holds more than ${JSON_VALUES_MAX} values.`);
    }
    isJustOpened = byte === OPEN_BRACE || byte === OPEN_BRACKET;
    if (isJustOpened) {
      depth += 1;
      if (depth > JSON_DEPTH_MAX) throw refuse(`The JSON is nested deeper than ${JSON_DEPTH_MAX}.`);
    } else if (isEnd) depth -= 1;
    else if (byte === QUOTE) isInString = true;
  }
  return mayHoldInfinity;
}
