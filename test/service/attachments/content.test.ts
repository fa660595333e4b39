import { anything, assert, constantFrom, integer, jsonValue, oneof, property, string, tuple } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createContentChecker, createJsonChecker } from '../../../src/service/attachments/receive-upload.js';
import { ATTACHMENT_TYPE, type AttachmentType } from '../../../src/wire/attachment.js';
import { SAMPLE } from '../../support/multipart.js';

const TYPES = Object.keys(ATTACHMENT_TYPE) as AttachmentType[];
const SIGNED: readonly AttachmentType[] = ['application/pdf', 'image/png', 'image/jpeg', 'image/gif'];

function accepts(type: AttachmentType, bytes: Uint8Array, chunkSize = bytes.length): boolean {
  const checker = createContentChecker(type);
  for (let start = 0; start < bytes.length; start += Math.max(1, chunkSize))
    if (!checker.push(bytes.subarray(start, start + chunkSize))) return false;
  return checker.end();
}

const sampleOf = (type: string): Buffer => SAMPLE[type] ?? Buffer.alloc(0);

describe('Attachments › binary signature check', () => {
  it.each(TYPES)('%s accepts its own kind of file, however it is split into chunks', (type) => {
    for (const chunkSize of [1, 2, 3, 5, 1000]) expect(accepts(type, sampleOf(type), chunkSize)).toBe(true);
  });

  const pairs = SIGNED.flatMap((declared) =>
    TYPES.filter((type) => type !== declared).map((actual) => [declared, actual]),
  );
  it.each(pairs)('%s refuses a file of %s', (declared, actual) => {
    for (const chunkSize of [1, 1000])
      expect(accepts(declared as AttachmentType, sampleOf(actual ?? ''), chunkSize)).toBe(false);
  });

  it.each(SIGNED)('%s refuses a signature that is cut short, late or empty', (type) => {
    const sample = sampleOf(type);
    expect(accepts(type, Buffer.alloc(0))).toBe(false);
    expect(accepts(type, sample.subarray(0, 2))).toBe(false);
    expect(accepts(type, Buffer.concat([Buffer.from(' '), sample]))).toBe(false);
    expect(accepts(type, Buffer.concat([Buffer.from('<html>'), sample]))).toBe(false);
  });

  it('ends as soon as the first bytes are wrong', () => {
    expect(createContentChecker('image/png').push(Buffer.alloc(1024, 'a'))).toBe(false);
  });
});

describe('Attachments › text is UTF-8 without NUL', () => {
  const texts = TYPES.filter((type) => !SIGNED.includes(type));
  it.each(texts)('%s', (type) => {
    const wrap = (bytes: Buffer): Buffer =>
      type === 'application/json' ? Buffer.concat([Buffer.from('"'), bytes, Buffer.from('"')]) : bytes;
    for (const bytes of [[0x61, 0x00], [0xff], [0xc3], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf5, 0x80, 0x80, 0x80]])
      for (const chunkSize of [1, 1000]) expect(accepts(type, wrap(Buffer.from(bytes)), chunkSize)).toBe(false);
    for (const text of ['grüße 👋', 'a\u2028b', '日本'])
      for (const chunkSize of [1, 2, 3, 1000]) expect(accepts(type, wrap(Buffer.from(text)), chunkSize)).toBe(true);
  });
});

describe('Attachments › JSON must parse', () => {
  const isJson = (text: string, chunkSize = 1): boolean => {
    const checker = createJsonChecker();
    const bytes = Buffer.from(text);
    for (let start = 0; start < bytes.length; start += chunkSize)
      if (!checker.push(bytes.subarray(start, start + chunkSize))) return false;
    return checker.end();
  };
  const parses = (text: string): boolean => {
    try {
      JSON.parse(text);
      return true;
    } catch {
      return false;
    }
  };

  const REFUSED = ['', ' ', '{', '}', '[1,]', '{"a":1,}', '{a:1}', "{'a':1}", '01', '1.', '.5', '+1', '-', '1e', 'tru'];
  it.each([
    ...REFUSED,
    'nulll',
    'nill',
    '[trie]',
    '"\\u00e9\\u00e"',
    '[1 2]',
    '"a',
    '"\\x"',
    '"\\u12g4"',
    '"\t"',
    '1 2',
    '[}',
    '{]',
    '\ufeff{}',
    ',',
  ])('%j is not a JSON text', (text) => {
    expect(parses(text)).toBe(false);
    expect(isJson(text)).toBe(false);
  });

  it.each(['"\\u00e9\\u00E9\\n"', '{"\\ud83d\\ude00":[true,false,null]}', '[-0.5e+10,0,1E9]'])(
    '%j is a JSON text',
    (text) => expect(isJson(text)).toBe(parses(text)),
  );

  it('accepts what JSON.parse accepts', () => {
    assert(
      property(
        jsonValue({ maxDepth: 6 }),
        integer({ min: 0, max: 3 }),
        integer({ min: 1, max: 9 }),
        (value, space, cut) => isJson(JSON.stringify(value, undefined, space), cut),
      ),
      { numRuns: 1000 },
    );
  });

  it('refuses what JSON.parse refuses', () => {
    const token = constantFrom(
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"',
      '\\',
      '1',
      '-',
      '0',
      '.',
      'e',
      'true',
      'null',
      ' ',
      'a',
    );
    const text = oneof(
      string({ unit: token, maxLength: 12 }),
      tuple(anything(), string({ unit: token, maxLength: 3 })).map(([value, end]) => `${JSON.stringify(value)}${end}`),
    );
    assert(
      property(text, (candidate) => {
        expect(isJson(candidate)).toBe(parses(candidate));
      }),
      { numRuns: 20_000 },
    );
  });

  it('limits the nesting depth', () => {
    expect(isJson('['.repeat(9000) + ']'.repeat(9000), 64)).toBe(true);
    expect(isJson('['.repeat(11_000) + ']'.repeat(11_000), 64)).toBe(false);
  });
});
