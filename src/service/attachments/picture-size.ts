import type { AttachmentFiles } from '../core/attachment-store.js';

/** In pixels. */
export interface PictureSize {
  readonly width: number;
  readonly height: number;
}

/** Where a PNG, GIF or JPEG says how large it is; a JPEG with large embedded data says it later, and stays unmeasured. */
const HEAD_BYTES = 64 * 1024;
const SIDE_MAX = 100_000;

const PNG = Buffer.from('89504e470d0a1a0a', 'hex');
const GIF = Buffer.from('GIF8');
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
  if (startsWith(GIF))
    return head.length < 10 ? undefined : { width: head.readUInt16LE(6), height: head.readUInt16LE(8) };
  return startsWith(JPEG) ? readJpegSides(head) : undefined;
}

/** Whether the segment of a JPEG with this marker begins a frame (ITU-T T.81, table B.1). */
export function isFrame(marker: number): boolean {
  return marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
}

/** A JPEG is a row of segments, each with its marker and its length; the one that begins a frame holds its size. */
function readJpegSides(head: Buffer): PictureSize | undefined {
  for (let at = 2; at + 9 <= head.length && head[at] === 0xff; ) {
    const marker = head[at + 1] ?? 0;
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
