import type { AttachmentFiles } from '../core/attachment-store.js';

/** In pixels. */
export interface PictureSize {
  readonly width: number;
  readonly height: number;
}

/** Where a PNG, GIF, WebP or JPEG says how large it is; a JPEG with large embedded data says it later, and stays unmeasured. */
const HEAD_BYTES = 64 * 1024;
const SIDE_MAX = 100_000;

const PNG = Buffer.from('89504e470d0a1a0a', 'hex');
const GIF = Buffer.from('GIF8');
const RIFF = Buffer.from('RIFF');
const JPEG = Buffer.from('ffd8ff', 'hex');

/** The size of a picture from its first bytes; undefined if they do not contain it. */
export function readPictureSize(head: Buffer): PictureSize | undefined {
  const size = readSides(head);
  const isPlausible = size !== undefined && Math.min(size.width, size.height) > 0;
  return isPlausible && Math.max(size.width, size.height) <= SIDE_MAX ? size : undefined;
}

function readSides(head: Buffer): PictureSize | undefined {
  const startsWith = (signature: Buffer): boolean => head.subarray(0, signature.length).equals(signature);
  if (startsWith(PNG))
    return head.length < 24 ? undefined : { width: head.readUInt32BE(16), height: head.readUInt32BE(20) };
  if (startsWith(GIF)) return readGifSides(head);
  if (startsWith(RIFF)) return readWebpSides(head);
  return startsWith(JPEG) ? readJpegSides(head) : undefined;
}

const GIF_EXTENSION = 0x21;
const GIF_FRAME = 0x2c;

/** Browsers make the picture as large as its first frame if that does not fit (GIF89a, 18 to 20). */
function readGifSides(head: Buffer): PictureSize | undefined {
  const flags = head[10] ?? 0;
  let at = 13 + (flags & 0x80 ? 3 * 2 ** ((flags & 7) + 1) : 0);
  while (head[at] === GIF_EXTENSION) {
    at += 2;
    while ((head[at] ?? 0) > 0) at += 1 + (head[at] ?? 0);
    at += 1;
  }
  if (head[at] !== GIF_FRAME || at + 9 > head.length) return undefined;
  return {
    width: Math.max(head.readUInt16LE(6), head.readUInt16LE(at + 1) + head.readUInt16LE(at + 5)),
    height: Math.max(head.readUInt16LE(8), head.readUInt16LE(at + 3) + head.readUInt16LE(at + 7)),
  };
}

/** The first chunk holds the sides, in one of three forms (RFC 9649, 2.5 to 2.7). */
function readWebpSides(head: Buffer): PictureSize | undefined {
  if (head.length < 30 || head.toString('latin1', 8, 12) !== 'WEBP') return undefined;
  const low = (number: number): number => number & 0x3fff;
  switch (head.toString('latin1', 12, 16)) {
    case 'VP8 ':
      return { width: low(head.readUInt16LE(26)), height: low(head.readUInt16LE(28)) };
    case 'VP8L':
      return { width: 1 + low(head.readUInt32LE(21)), height: 1 + low(head.readUInt32LE(21) >>> 14) };
    case 'VP8X':
      return { width: 1 + head.readUIntLE(24, 3), height: 1 + head.readUIntLE(27, 3) };
    default:
      return undefined;
  }
}

/** Whether the segment of a JPEG with this marker begins a frame (ITU-T T.81, table B.1). */
export function isFrame(marker: number): boolean {
  return marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
}

/** No length follows these, so a reader that expects one sees other segments than a browser (table B.1). */
export const hasNoLength = (marker: number): boolean => marker <= 0x01 || (marker >= 0xd0 && marker <= 0xd9);

/** A JPEG is a row of segments, each with its marker and its length; the one that begins a frame holds its size. */
function readJpegSides(head: Buffer): PictureSize | undefined {
  for (let at = 2; at + 9 <= head.length && head[at] === 0xff; ) {
    const marker = head[at + 1] ?? 0;
    if (hasNoLength(marker)) return undefined;
    if (isFrame(marker)) return { width: head.readUInt16BE(at + 7), height: head.readUInt16BE(at + 5) };
    // Bytes between two segments may fill up a marker.
    at += marker === 0xff ? 1 : 2 + head.readUInt16BE(at + 2);
  }
  return undefined;
}

const REMEMBERED_MAX = 5_000;
/** Attachments never change. The oldest is forgotten first. */
const remembered = new WeakMap<AttachmentFiles, Map<string, PictureSize | undefined>>();

/** The sizes of those attachments that are pictures. */
export async function measurePictures(
  files: AttachmentFiles,
  ids: readonly string[],
): Promise<ReadonlyMap<string, PictureSize>> {
  const known = remembered.get(files) ?? new Map<string, PictureSize | undefined>();
  remembered.set(files, known);
  const sizes = new Map<string, PictureSize>();
  for (const id of ids) {
    const measured = known.has(id) ? undefined : await measure(files, id);
    if (measured !== undefined) known.set(id, measured.size);
    const size = known.get(id);
    if (size !== undefined) sizes.set(id, size);
  }
  for (const id of known.keys()) if (known.size > REMEMBERED_MAX) known.delete(id);
  return sizes;
}

/** Undefined: the file is not on this machine, and a page does not wait for it. */
async function measure(
  files: AttachmentFiles,
  id: string,
): Promise<{ readonly size: PictureSize | undefined } | undefined> {
  const file = await files.openHere(id);
  if (file === undefined) return undefined;
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    return { size: readPictureSize(buffer.subarray(0, bytesRead)) };
  } finally {
    await file.close();
  }
}
