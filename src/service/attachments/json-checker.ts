const DEPTH_MAX = 10_000;

const OBJECT = 1;
const ARRAY = 2;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** What may come next. A number or literal ends at the first byte that is not part of it. */
type Expecting =
  | 'value'
  | 'valueOrEnd'
  | 'keyOrEnd'
  | 'key'
  | 'colon'
  | 'commaOrEnd'
  | 'string'
  | 'escape'
  | 'hex'
  | 'literal'
  | 'number';

const LITERAL: Record<string, string> = { t: 'rue', f: 'alse', n: 'ull' };

type NumberPart = 'minus' | 'zero' | 'integer' | 'point' | 'fraction' | 'e' | 'sign' | 'exponent';

/** After each part of a number, the bytes that may follow, and the part they begin or continue (RFC 8259 §6). */
const NUMBER: Record<NumberPart, ReadonlyMap<number, NumberPart>> = {
  minus: follow(['0', 'zero'], ['123456789', 'integer']),
  zero: follow(['.', 'point'], ['eE', 'e']),
  integer: follow(['0123456789', 'integer'], ['.', 'point'], ['eE', 'e']),
  point: follow(['0123456789', 'fraction']),
  fraction: follow(['0123456789', 'fraction'], ['eE', 'e']),
  e: follow(['+-', 'sign'], ['0123456789', 'exponent']),
  sign: follow(['0123456789', 'exponent']),
  exponent: follow(['0123456789', 'exponent']),
};
const MAY_END: ReadonlySet<NumberPart> = new Set(['zero', 'integer', 'fraction', 'exponent']);

function follow(
  ...rows: readonly (readonly [characters: string, part: NumberPart])[]
): ReadonlyMap<number, NumberPart> {
  return new Map(
    rows.flatMap(([characters, part]) => [...Buffer.from(characters)].map((byte) => [byte, part] as const)),
  );
}

/** Checks whether a byte stream is one JSON text (RFC 8259), without keeping it. The bytes must be valid UTF-8. */
export interface JsonChecker {
  /** False: it is not a JSON text, whatever follows. */
  push(chunk: Uint8Array): boolean;
  /** Whether the bytes so far are a complete JSON text. */
  end(): boolean;
}

export function createJsonChecker(): JsonChecker {
  const state: State = {
    expecting: 'value',
    stack: [],
    isKey: false,
    rest: '',
    hexLeft: 0,
    numberPart: 'minus',
    isValid: true,
  };
  return {
    push(chunk) {
      for (let index = 0; index < chunk.length && state.isValid; index += 1) take(state, chunk[index] ?? 0);
      return state.isValid;
    },
    end() {
      if (state.expecting === 'number') endNumber(state);
      return state.isValid && state.stack.length === 0 && state.expecting === 'commaOrEnd';
    },
  };
}

interface State {
  expecting: Expecting;
  readonly stack: number[];
  /** The string being read is a member's name. */
  isKey: boolean;
  rest: string;
  hexLeft: number;
  numberPart: NumberPart;
  isValid: boolean;
}

function take(state: State, byte: number): void {
  switch (state.expecting) {
    case 'string':
      takeInString(state, byte);
      return;
    case 'escape':
    case 'hex':
      takeInEscape(state, byte);
      return;
    case 'literal':
      takeInLiteral(state, byte);
      return;
    case 'number':
      if (takeInNumber(state, byte)) return;
      break;
    default:
  }
  const isSpace = byte === 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d;
  if (!isSpace) takeToken(state, String.fromCharCode(byte));
}

function takeToken(state: State, token: string): void {
  switch (state.expecting) {
    case 'colon':
      if (token === ':') state.expecting = 'value';
      else state.isValid = false;
      return;
    case 'key':
    case 'keyOrEnd':
      if (token === '"') beginString(state, true);
      else if (token === '}' && state.expecting === 'keyOrEnd') close(state, OBJECT);
      else state.isValid = false;
      return;
    case 'commaOrEnd':
      if (token === ',' && state.stack.length > 0) state.expecting = state.stack.at(-1) === OBJECT ? 'key' : 'value';
      else if (token === '}') close(state, OBJECT);
      else if (token === ']') close(state, ARRAY);
      else state.isValid = false;
      return;
    default:
      if (token === ']' && state.expecting === 'valueOrEnd') close(state, ARRAY);
      else beginValue(state, token);
  }
}

function beginValue(state: State, token: string): void {
  const rest = LITERAL[token];
  if (token === '"') beginString(state, false);
  else if (token === '{') open(state, OBJECT, 'keyOrEnd');
  else if (token === '[') open(state, ARRAY, 'valueOrEnd');
  else if (rest !== undefined) {
    state.rest = rest;
    state.expecting = 'literal';
  } else if (token === '-' || (token >= '0' && token <= '9')) {
    state.numberPart = token === '-' ? 'minus' : token === '0' ? 'zero' : 'integer';
    state.expecting = 'number';
  } else state.isValid = false;
}

function beginString(state: State, isKey: boolean): void {
  state.isKey = isKey;
  state.expecting = 'string';
}

function open(state: State, kind: number, expecting: Expecting): void {
  state.stack.push(kind);
  state.expecting = expecting;
  if (state.stack.length > DEPTH_MAX) state.isValid = false;
}

function close(state: State, kind: number): void {
  if (state.stack.pop() !== kind) state.isValid = false;
  state.expecting = 'commaOrEnd';
}

function takeInString(state: State, byte: number): void {
  if (byte === QUOTE) state.expecting = state.isKey ? 'colon' : 'commaOrEnd';
  else if (byte === BACKSLASH) state.expecting = 'escape';
  else if (byte < 0x20) state.isValid = false;
}

function takeInEscape(state: State, byte: number): void {
  const character = String.fromCharCode(byte);
  if (state.expecting === 'hex') {
    if (!/[\dA-Fa-f]/.test(character)) state.isValid = false;
    state.hexLeft -= 1;
    if (state.hexLeft === 0) state.expecting = 'string';
  } else if (character === 'u') {
    state.hexLeft = 4;
    state.expecting = 'hex';
  } else {
    if (!'"\\/bfnrt'.includes(character)) state.isValid = false;
    state.expecting = 'string';
  }
}

function takeInLiteral(state: State, byte: number): void {
  if (state.rest.charCodeAt(0) !== byte) state.isValid = false;
  state.rest = state.rest.slice(1);
  if (state.rest === '') state.expecting = 'commaOrEnd';
}

/** False: the byte is not part of the number, which has ended. */
function takeInNumber(state: State, byte: number): boolean {
  const part = NUMBER[state.numberPart].get(byte);
  if (part === undefined) endNumber(state);
  else state.numberPart = part;
  return part !== undefined;
}

function endNumber(state: State): void {
  if (!MAY_END.has(state.numberPart)) state.isValid = false;
  state.expecting = 'commaOrEnd';
}
