import { describe, expect, it } from 'vitest';

import { cleanPicture, PICTURE_MAX_BYTES, PICTURE_SIDE_MAX } from '../../../src/service/attachments/clean-picture.js';
import { readPictureSize } from '../../../src/service/attachments/picture-size.js';
import { drawPng, JPEG_WITH_COMMENT, pngChunk } from '../../support/pictures.js';

const SECRET = 'taken at 52.5 N 13.4 E';
const PLAIN = drawPng(8, 8);

/** A JPEG segment with that marker. */
const segment = (marker: number, data: string): Buffer => {
  const head = Buffer.from([0xff, marker, 0, 0]);
  head.writeUInt16BE(data.length + 2, 2);
  return Buffer.concat([head, Buffer.from(data, 'latin1')]);
};
const jpegWith = (...segments: readonly Buffer[]): Buffer =>
  Buffer.concat([JPEG_WITH_COMMENT.subarray(0, 2), ...segments, JPEG_WITH_COMMENT.subarray(2)]);

describe('A picture of an agent', () => {
  it.each(['tEXt', 'eXIf', 'iTXt', 'zTXt', 'iCCP', 'acTL', 'fcTL', 'prVt'])('loses the %s chunk of a PNG', (name) => {
    const clean = cleanPicture(drawPng(8, 8, pngChunk(name, Buffer.from(SECRET))));
    expect(clean).toEqual({ type: 'image/png', bytes: PLAIN });
  });

  it('keeps what the colors of a PNG need', () => {
    const colored = drawPng(8, 8, pngChunk('gAMA', Buffer.alloc(4, 1)), pngChunk('sRGB', Buffer.alloc(1)));
    expect(cleanPicture(colored)?.bytes).toEqual(colored);
  });

  it('loses the comment, the places and the names in a JPEG, and keeps the pixels', () => {
    const exif = [segment(0xe1, `Exif\0\0${SECRET}`), segment(0xed, SECRET), segment(0xe2, SECRET)];
    const clean = cleanPicture(jpegWith(...exif));
    expect(clean?.type).toBe('image/jpeg');
    const text = clean?.bytes.toString('latin1') ?? '';
    expect(text).not.toMatch(/made by Eve|Exif|52\.5/);
    expect(readPictureSize(clean?.bytes ?? Buffer.alloc(0))).toEqual({ width: 8, height: 8 });
    const comment = segment(0xfe, 'made by Eve');
    expect(clean?.bytes.length).toBe(JPEG_WITH_COMMENT.length - comment.length);
    // Cleaning a clean picture changes nothing.
    expect(cleanPicture(clean?.bytes ?? Buffer.alloc(0))?.bytes).toEqual(clean?.bytes);
  });

  const LITTLE = 'II*\0\x08\0\0\0';
  const BIG = 'MM\0*\0\0\0\x08';
  /** A note with two fields: the maker of the camera, and how it was held. */
  const heldAs = (start: string, value: string): Buffer => {
    const fields = start.startsWith('II')
      ? `\x02\0\x0f\x01\x02\0\x04\0\0\0Eve\0\x12\x01\x03\0\x01\0\0\0${value}\0\0\0`
      : `\0\x02\x01\x0f\0\x02\0\0\0\x04Eve\0\x01\x12\0\x03\0\0\0\x01\0${value}\0\0`;
    return segment(0xe1, `Exif\0\0${start}${fields}\0\0\0\0${SECRET}`);
  };

  it.each([LITTLE, BIG])(
    'keeps of the notes in a JPEG how the camera was held, so that it is not shown on its side',
    (start) => {
      const clean = cleanPicture(jpegWith(heldAs(start, '\x06')))?.bytes;
      const kept = 'Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0';
      expect(clean?.includes(segment(0xe1, kept))).toBe(true);
      expect(clean?.toString('latin1')).not.toMatch(/Eve|52\.5/);
      expect(cleanPicture(clean ?? Buffer.alloc(0))?.bytes).toEqual(clean);
    },
  );

  it.each(['\0', '\x01', '\x09'])('keeps no note that turns nothing', (value) => {
    expect(cleanPicture(jpegWith(heldAs(LITTLE, value)))?.bytes.includes('Exif')).toBe(false);
  });

  it('takes no other number in the notes of a JPEG for how the camera was held', () => {
    const other = `\0\x01\x01\x28\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0`;
    const clean = cleanPicture(jpegWith(segment(0xe1, `Exif\0\0${BIG}${other}`)));
    expect(clean?.bytes.includes('Exif')).toBe(false);
  });

  it('keeps the note about colors in a JPEG', () => {
    const adobe = segment(0xee, 'Adobe\0\x64\0\0\0\0\x01');
    expect(cleanPicture(jpegWith(adobe))?.bytes.includes(adobe)).toBe(true);
  });

  it.each([PLAIN, JPEG_WITH_COMMENT])('loses what follows its end', (picture) => {
    const clean = cleanPicture(Buffer.concat([picture, Buffer.from('<script>alert(1)</script>')]));
    expect(clean?.bytes).toEqual(cleanPicture(picture)?.bytes);
  });

  it.each([PLAIN, JPEG_WITH_COMMENT])('is refused when it is cut off at any byte', (picture) => {
    for (let length = 0; length < picture.length; length += 1)
      expect([length, cleanPicture(picture.subarray(0, length))]).toEqual([length, undefined]);
  });

  it('is refused when a bit of a PNG was flipped', () => {
    for (let at = 0; at < PLAIN.length * 8; at += 1) {
      const damaged = Buffer.from(PLAIN);
      damaged[at >> 3] = (damaged[at >> 3] ?? 0) ^ (1 << (at & 7));
      expect([at, cleanPicture(damaged)]).toEqual([at, undefined]);
    }
  });

  it('of any other bytes never throws, and is never larger than they are', () => {
    const damaged = jpegWith(heldAs(BIG, '\x06'));
    for (let at = 2; at < damaged.length; at += 1)
      for (const byte of [0x00, 0xd9, 0xda, 0xff]) {
        const bytes = Buffer.from(damaged);
        bytes[at] = byte;
        expect(cleanPicture(bytes)?.bytes.length ?? 0).toBeLessThanOrEqual(bytes.length);
      }
  });

  /** A JPEG in which a marker without a length is followed by one, to hide what a browser then reads. */
  const hiding = (marker: number): Buffer => {
    const huge = segment(0xc2, '\x08\xff\xff\xff\xff\x01\x01\x11\0');
    return jpegWith(Buffer.concat([Buffer.from([0xff, marker, 0, huge.length + 2]), huge]));
  };
  const frame = segment(0xc2, '\x08\xff\xff\xff\xff\x01\x01\x11\0');
  const scan = segment(0xda, '\x01\x01\0\0\0\x01');
  const withScans = (count: number): Buffer =>
    Buffer.concat([JPEG_WITH_COMMENT.subarray(0, -2), ...Array.from({ length: count }, () => scan), END]);
  const END = JPEG_WITH_COMMENT.subarray(-2);

  it('can have as many scans as programs write', () => {
    expect(cleanPicture(withScans(20))?.type).toBe('image/jpeg');
  });

  it.each([
    ['GIF', Buffer.from('474946383961080008000000003b', 'hex')],
    ['SVG', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>')],
    ['page', Buffer.from('<!doctype html><script>alert(1)</script>')],
    ['picture with too many pixels', drawPng(PICTURE_SIDE_MAX + 1, 1)],
    ['JPEG that hides its size behind a marker for private use', hiding(0x01)],
    ['JPEG that hides its size behind a second beginning', hiding(0xd8)],
    ['JPEG with a second size', Buffer.concat([JPEG_WITH_COMMENT.subarray(0, -2), frame, END])],
    ['JPEG with thousands of scans', withScans(5_000)],
    ['picture without pixels', Buffer.concat([PLAIN.subarray(0, 33), pngChunk('IEND', Buffer.alloc(0))])],
    ['file that is too large', drawPng(8, 8, pngChunk('tEXt', Buffer.alloc(PICTURE_MAX_BYTES)))],
  ])('cannot be a %s', (_, bytes) => {
    expect(cleanPicture(bytes)).toBeUndefined();
  });
});
