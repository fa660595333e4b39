import { describe, expect, it } from 'vitest';

import { readPictureSize } from '../../../src/service/attachments/picture-size.js';
import { drawPng } from '../../support/pictures.js';

const SIZE = { width: 12_000, height: 9_000 };

/** The beginning of a WebP in one of its three forms. */
function webp(form: string): Buffer {
  const head = Buffer.alloc(30);
  head.write('RIFF', 0);
  head.write(`WEBP${form}`, 8);
  const { width, height } = SIZE;
  if (form === 'VP8L') head.writeUInt32LE((width - 1) | ((height - 1) << 14), 21);
  else if (form === 'VP8X') {
    head.writeUIntLE(width - 1, 24, 3);
    head.writeUIntLE(height - 1, 27, 3);
  } else {
    head.writeUInt16LE(width, 26);
    head.writeUInt16LE(height, 28);
  }
  return head;
}

/** A GIF that claims to be one pixel, with a palette, a comment and a large first frame. */
function gif(): Buffer {
  const frame = Buffer.alloc(10);
  frame[0] = 0x2c;
  frame.writeUInt16LE(SIZE.width, 5);
  frame.writeUInt16LE(SIZE.height, 7);
  const palette = Buffer.alloc(6);
  return Buffer.concat([
    Buffer.from('GIF89a\x01\0\x01\0\x80\0\0', 'latin1'),
    palette,
    Buffer.from('!\xfe\x02hi\0', 'latin1'),
    frame,
  ]);
}

/** A JPEG that consists of a frame; `before` comes first. */
function jpeg(before = ''): Buffer {
  const frame = Buffer.alloc(20);
  frame.writeUInt32BE(0xffc00011);
  frame.writeUInt16BE(SIZE.height, 5);
  frame.writeUInt16BE(SIZE.width, 7);
  return Buffer.concat([Buffer.from(`ffd8${before}`, 'hex'), frame]);
}

describe('The size of a picture', () => {
  it.each([
    ['PNG', drawPng(3, 4), { width: 3, height: 4 }],
    ['JPEG', jpeg(), SIZE],
    ['GIF with a frame that does not fit', gif(), SIZE],
    ['lossy WebP', webp('VP8 '), SIZE],
    ['lossless WebP', webp('VP8L'), SIZE],
    ['extended WebP', webp('VP8X'), SIZE],
  ])('of a %s is that of what a browser unpacks', (_, bytes, size) => {
    expect(readPictureSize(bytes)).toEqual(size);
  });

  it.each([
    ['a JPEG with a marker that browsers skip', jpeg('ff01')],
    ['a WebP of an unknown form', webp('VP9 ')],
    ['a GIF without a frame', gif().subarray(0, 24)],
    ['a PNG that has only begun', Buffer.from('89504e470d0a1a0a', 'hex')],
  ])('of %s is unknown', (_, bytes) => {
    expect(readPictureSize(bytes)).toBeUndefined();
  });
});
