import { assert, property, string } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { sanitizeFilename } from '../../../src/service/attachments/receive-upload.js';
import { ANY_CHARACTER } from '../../support/hostile-text.js';

const KEPT: readonly (readonly [given: string, kept: string])[] = [
  ['report.pdf', 'report.pdf'],
  ['with space-_.txt', 'with space-_.txt'],
  ['../../etc/passwd', 'passwd'],
  ['..\\..\\windows\\system.ini', 'system.ini'],
  ['C:\\temp\\a.txt', 'a.txt'],
  ['C:a.txt', 'C_a.txt'],
  ['/etc/shadow', 'shadow'],
  ['folder/', 'folder'],
  ['a<>b|c?.txt', 'a_b_c_.txt'],
  ['a"b\'c`d;e$(f).txt', 'a_b_c_d_e_f_.txt'],
  ['grüße.txt', 'gr_e.txt'],
  ['日本語.pdf', '_.pdf'],
  ['a\u0000b.txt', 'ab.txt'],
  ['a\r\nSet-Cookie: x.txt', 'aSet-Cookie_ x.txt'],
  ['a\u001b[31m.txt', 'a_31m.txt'],
  ['gnp.\u202exe.txt', 'gnp._xe.txt'],
  ['zero\u200bwidth.txt', 'zero_width.txt'],
  ['...hidden...', 'hidden'],
  ['.htaccess', 'htaccess'],
  ['-rf', 'rf'],
  ['--help.txt', 'help.txt'],
  [' outer ', 'outer'],
  ['a.txt. . .', 'a.txt'],
  ['CON', '_CON'],
  ['nul.txt', '_nul.txt'],
  ['com1.tar.gz', '_com1.tar.gz'],
  ['console.txt', 'console.txt'],
  ['..', 'file'],
  ['.', 'file'],
  ['/', 'file'],
  ['', 'file'],
  ['---', 'file'],
  ['\u0000', 'file'],
  [`${'n'.repeat(300)}.txt`, `${'n'.repeat(176)}.txt`],
  ['n'.repeat(300), 'n'.repeat(180)],
  [`${'é'.repeat(300)}.txt`, '_.txt'],
];

describe('Attachments › filename', () => {
  it.each(KEPT)('%j is kept as %j', (given, kept) => {
    expect(sanitizeFilename(given)).toBe(kept);
  });

  it('is read only once: starting over at each of its dots would take minutes', () => {
    expect(sanitizeFilename(`a${'.'.repeat(300_000)}b`)).toBe('a.b');
    expect(sanitizeFilename(`a${' '.repeat(200_000)}/${' '.repeat(200_000)}b`)).toBe('b');
  });

  it('becomes a plain base name of 1 to 180 characters, which never changes', () => {
    const hostile = string({ unit: ANY_CHARACTER, maxLength: 400 });
    assert(
      property(hostile, (given) => {
        const kept = sanitizeFilename(given);
        expect(kept).toMatch(/^[A-Za-z0-9_][A-Za-z0-9._ -]{0,179}$/);
        expect(kept).not.toMatch(/[. ]$/);
        expect(sanitizeFilename(kept)).toBe(kept);
      }),
      { numRuns: 2000 },
    );
  });
});
