import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';

import { COMMON_PASSWORDS } from './common-passwords.js';

const MIN_LENGTH = 8;
const MAX_LENGTH = 200;

const KEY_BYTES = 32;
const SALT_BYTES = 16;
const COST: ScryptOptions = { N: 2 ** 15, r: 8, p: 1, maxmem: 64 * 1024 * 1024 };

const derive = promisify<string, Buffer, number, ScryptOptions, Buffer>(scrypt);

/** A salted scrypt hash (RFC 7914) with its cost, as one text. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  const key = await derive(password.normalize('NFKC'), salt, KEY_BYTES, COST);
  return `scrypt$${COST.N}$${COST.r}$${COST.p}$${salt.toString('base64url')}$${key.toString('base64url')}`;
}

/** Stands in for an account that does not exist, so that the answer takes as long. */
const NOBODY = `scrypt$${COST.N}$${COST.r}$${COST.p}$${Buffer.alloc(SALT_BYTES).toString('base64url')}$${Buffer.alloc(KEY_BYTES).toString('base64url')}`;

/** Whether `password` is the one that was hashed; never for an account without one, and as slowly. */
export async function isPasswordOf(hash: string | null | undefined, password: string): Promise<boolean> {
  const [, N, r, p, salt = '', key = ''] = (hash ?? NOBODY).split('$');
  const cost = { ...COST, N: Number(N), r: Number(r), p: Number(p) };
  const expected = Buffer.from(key, 'base64url');
  const derived = await derive(password.normalize('NFKC'), Buffer.from(salt, 'base64url'), expected.length, cost);
  return timingSafeEqual(derived, expected) && typeof hash === 'string';
}

/** What is wrong with a password that somebody chooses, for that person; undefined: nothing. */
export function findPasswordMistake(password: string, username: string): string | undefined {
  if (password.length < MIN_LENGTH || password.length > MAX_LENGTH) return 'Choose a password of 8 to 200 characters.';
  return isGuessable(password, username)
    ? 'This password is too easy to guess. Choose one that is not a common word, your username, or a run of keys.'
    : undefined;
}

/** Beyond these, words and runs are a passphrase. */
const PIECES_MAX = 2;
/** So much beside a word is decoration. */
const DECORATION_MAX_LENGTH = 3;
const RUN_MIN_LENGTH = 3;
/** A shorter one stands in anything. */
const USERNAME_MIN_LENGTH = 3;
const REPEATED_MAX_LENGTH = 4;
const ROWS = [
  '01234567890',
  'abcdefghijklmnopqrstuvwxyz',
  'qwertyuiop',
  'qwertzuiop',
  'azertyuiop',
  'asdfghjkl',
  'zxcvbnm',
];
const RUNS = ROWS.flatMap((row) => [row, [...row].reverse().join('')]);
const LOOK_ALIKE: Readonly<Record<string, string>> = {
  '0': 'o',
  '1': 'i',
  '3': 'e',
  '4': 'a',
  '5': 's',
  '7': 't',
  '@': 'a',
  $: 's',
  '!': 'i',
};

/** Whether it is one or two common words, usernames, runs of keys or years, with next to nothing beside them. */
function isGuessable(password: string, username: string): boolean {
  const text = password.normalize('NFKC').toLowerCase();
  const plain = [...text].map((character) => LOOK_ALIKE[character] ?? character).join('');
  if (isOneRepeated(text)) return true;
  let pieces = 0;
  let beside = 0;
  for (let at = 0; at < text.length; ) {
    const length = pieceLengthAt(text, plain, username, at);
    if (length === 0) beside += 1;
    else pieces += 1;
    at += Math.max(1, length);
    if (pieces > PIECES_MAX || beside > DECORATION_MAX_LENGTH) return false;
  }
  return true;
}

function isOneRepeated(text: string): boolean {
  for (let length = 1; length <= REPEATED_MAX_LENGTH; length += 1)
    if (
      text ===
      text
        .slice(0, length)
        .repeat(Math.ceil(text.length / length))
        .slice(0, text.length)
    )
      return true;
  return false;
}

const WORD_MAX_LENGTH = Math.max(...[...COMMON_PASSWORDS].map((word) => word.length));

function pieceLengthAt(text: string, plain: string, username: string, at: number): number {
  const isUsername =
    username.length >= USERNAME_MIN_LENGTH && [text, plain].some((form) => form.startsWith(username, at));
  const isYear = /^(?:19|20)\d\d/.test(text.slice(at, at + 4));
  return Math.max(
    runLengthAt(text, at),
    wordLengthAt(text, plain, at),
    isUsername ? username.length : 0,
    isYear ? 4 : 0,
  );
}

function wordLengthAt(text: string, plain: string, at: number): number {
  for (let length = Math.min(WORD_MAX_LENGTH, text.length - at); length > 0; length -= 1)
    if ([text, plain].some((form) => COMMON_PASSWORDS.has(form.slice(at, at + length)))) return length;
  return 0;
}

/** How far the same character, or a row of keys, goes on from here; 0 when that is no run. */
function runLengthAt(text: string, at: number): number {
  const longest = [text[at]?.repeat(text.length) ?? '', ...RUNS.map((row) => row.slice(row.indexOf(text[at] ?? '')))];
  const lengths = longest.map((row) => {
    let length = 0;
    while (row[length] !== undefined && row[length] === text[at + length]) length += 1;
    return length;
  });
  const length = Math.max(...lengths);
  return length >= RUN_MIN_LENGTH ? length : 0;
}
