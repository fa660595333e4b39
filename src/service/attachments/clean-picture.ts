import { crc32 } from 'node:zlib';
import { hasNoLength, isFrame, readPictureSize } from './picture-size.js';

/** In bytes, before and after. */
export const PICTURE_MAX_BYTES = 1024 * 1024;
/** In pixels. A small file can have more, and every browser that shows it would have to unpack it. */
export const PICTURE_SIDE_MAX = 2048;

export interface CleanPicture {
  readonly type: 'image/png' | 'image/jpeg';
  readonly bytes: Buffer;
}

const PNG_SIGNATURE = Buffer.from('89504e470d0a1a0a', 'hex');
/** These chunks show the picture in its colors. Others may name its maker, or animate it. */
const PNG_CHUNKS = new Set(['IHDR', 'PLTE', 'tRNS', 'gAMA', 'cHRM', 'sRGB', 'IDAT', 'IEND']);

/**
 * A whole PNG or JPEG without what a camera or a program added to the picture, such as places and names, except how
 * the camera was held, and without anything after its end. Undefined: it is something else, damaged, or too large.
 */
export function cleanPicture(bytes: Buffer): CleanPicture | undefined {
  const size = readPictureSize(bytes);
  if (size === undefined || Math.max(size.width, size.height) > PICTURE_SIDE_MAX) return undefined;
  if (bytes.length > PICTURE_MAX_BYTES) return undefined;
  const isPng = bytes.subarray(0, PNG_SIGNATURE.length).equals(PNG_SIGNATURE);
  const parts = isPng ? listPngParts(bytes) : listJpegParts(bytes);
  return parts && { type: isPng ? 'image/png' : 'image/jpeg', bytes: Buffer.concat(parts) };
}

/** A PNG is its signature and a row of chunks: length, name, data and checksum (W3C PNG, 5.3). */
function listPngParts(bytes: Buffer): Buffer[] | undefined {
  const parts: Buffer[] = [PNG_SIGNATURE];
  let hasPixels = false;
  for (let at = PNG_SIGNATURE.length; at + 12 <= bytes.length; ) {
    const end = at + 12 + bytes.readUInt32BE(at);
    const name = bytes.toString('latin1', at + 4, at + 8);
    if (end > bytes.length || (at === PNG_SIGNATURE.length) !== (name === 'IHDR')) return undefined;
    if (crc32(bytes.subarray(at + 4, end - 4)) !== bytes.readUInt32BE(end - 4)) return undefined;
    if (PNG_CHUNKS.has(name)) parts.push(bytes.subarray(at, end));
    if (name === 'IDAT') hasPixels = true;
    if (name === 'IEND') return hasPixels ? parts : undefined;
    at = end;
  }
  return undefined;
}

const END_OF_PICTURE = 0xd9;
const START_OF_SCAN = 0xda;
const COMMENT = 0xfe;
/** JFIF, and Adobe's note on how the colors are stored. */
const KEPT_NOTES = new Set([0xe0, 0xee]);
const isNote = (marker: number): boolean => (marker >= 0xe0 && marker <= 0xef) || marker === COMMENT;
/** Within a scan, these belong to the data (ITU-T T.81, B.1.1.2). */
const isData = (marker: number): boolean => marker === 0 || (marker >= 0xd0 && marker <= 0xd7);
/** Each scan of a progressive picture goes over all of its pixels, and can take a few bytes. Programs write about ten. */
const SCANS_MAX = 100;

/** A JPEG is a row of segments: marker, length and data. The data of a scan follows its segment. */
function listJpegParts(bytes: Buffer): Buffer[] | undefined {
  if (bytes.readUInt16BE(0) !== 0xffd8) return undefined;
  const parts = [bytes.subarray(0, 2)];
  let frames = 0;
  let scans = 0;
  let isTurned = false;
  for (let at = 2; at + 2 <= bytes.length && bytes[at] === 0xff; ) {
    const marker = bytes[at + 1] ?? 0;
    if (marker === 0xff) {
      at += 1;
      continue;
    }
    if (marker === END_OF_PICTURE) return scans > 0 ? [...parts, bytes.subarray(at, at + 2)] : undefined;
    if (at + 4 > bytes.length || hasNoLength(marker)) return undefined;
    let end = at + 2 + bytes.readUInt16BE(at + 2);
    if (marker === START_OF_SCAN) {
      scans += 1;
      while (end + 1 < bytes.length && (bytes[end] !== 0xff || isData(bytes[end + 1] ?? 0))) end += 1;
    }
    if (isFrame(marker)) frames += 1;
    // The size is that of the first frame.
    if (end > bytes.length || frames > 1 || scans > SCANS_MAX) return undefined;
    if (!isNote(marker) || KEPT_NOTES.has(marker)) parts.push(bytes.subarray(at, end));
    const orientation = marker === EXIF_NOTE && !isTurned ? readOrientation(bytes.subarray(at + 4, end)) : undefined;
    if (orientation !== undefined) {
      parts.push(renderOrientation(orientation));
      isTurned = true;
    }
    at = end;
  }
  return undefined;
}

const EXIF_NOTE = 0xe1;
const EXIF = Buffer.from('Exif\0\0', 'latin1');
const FIELD_LENGTH = 12;
const ORIENTATION = { tag: 0x0112, type: 3 } as const;

/** How a camera was held, from 2 to 8 (Exif 2.32, 4.6.4): without it, a browser shows the picture on its side. */
function readOrientation(note: Buffer): number | undefined {
  if (!note.subarray(0, EXIF.length).equals(EXIF)) return undefined;
  const tiff = note.subarray(EXIF.length);
  const order = tiff.toString('latin1', 0, 2);
  if (tiff.length < 8 || (order !== 'II' && order !== 'MM')) return undefined;
  const short = (at: number): number => (order === 'II' ? tiff.readUInt16LE(at) : tiff.readUInt16BE(at));
  const fields = order === 'II' ? tiff.readUInt32LE(4) : tiff.readUInt32BE(4);
  if (fields + 2 > tiff.length) return undefined;
  const end = Math.min(fields + 2 + short(fields) * FIELD_LENGTH, tiff.length);
  for (let at = fields + 2; at + FIELD_LENGTH <= end; at += FIELD_LENGTH) {
    if (short(at) !== ORIENTATION.tag || short(at + 2) !== ORIENTATION.type) continue;
    const value = short(at + 8);
    return value >= 2 && value <= 8 ? value : undefined;
  }
  return undefined;
}

/** A note that says nothing else. */
function renderOrientation(value: number): Buffer {
  const tiff = Buffer.alloc(8 + 2 + FIELD_LENGTH + 4);
  tiff.write('MM\0*', 'latin1');
  tiff.writeUInt32BE(8, 4);
  tiff.writeUInt16BE(1, 8);
  tiff.writeUInt16BE(ORIENTATION.tag, 10);
  tiff.writeUInt16BE(ORIENTATION.type, 12);
  tiff.writeUInt32BE(1, 14);
  tiff.writeUInt16BE(value, 18);
  const head = Buffer.from([0xff, EXIF_NOTE, 0, 2 + EXIF.length + tiff.length]);
  return Buffer.concat([head, EXIF, tiff]);
}
