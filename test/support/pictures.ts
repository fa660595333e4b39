import { crc32, deflateSync } from 'node:zlib';

/** A chunk of a PNG with its length and checksum. */
export function pngChunk(type: string, data: Uint8Array): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, sum]);
}

/** Draws a picture of one color. `more` are chunks before its pixels. */
export function drawPng(width: number, height: number, ...more: readonly Buffer[]): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2, 0, 0, 0], 8);
  const rows = Buffer.alloc((width * 3 + 1) * height);
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'),
    pngChunk('IHDR', header),
    ...more,
    pngChunk('IDAT', deflateSync(rows)),
    pngChunk('IEND', Buffer.alloc(0)),
  ]);
}

/** A progressive JPEG of 8 × 8 pixels with several scans, and the comment “made by Eve”. */
export const JPEG_WITH_COMMENT = Buffer.from(
  '/9j/4AAQSkZJRgABAQAAAQABAAD//gANbWFkZSBieSBFdmX/2wBDABQODxIPDRQSEBIXFRQYHjIhHhwcHj0sLiQySUBMS0dARkVQWnNiUFVtVkVGZIhlbXd7gYKBTmCNl4x9lnN+gXz/2wBDARUXFx4aHjshITt8U0ZTfHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHz/wgARCAAIAAgDASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAT/xAAVAQEBAAAAAAAAAAAAAAAAAAADBP/aAAwDAQACEAMQAAABgF6f/8QAFRABAQAAAAAAAAAAAAAAAAAAABL/2gAIAQEAAQUCp//EABYRAAMAAAAAAAAAAAAAAAAAAAACE//aAAgBAwEBPwGzn//EABYRAAMAAAAAAAAAAAAAAAAAAAACE//aAAgBAgEBPwGCH//EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAIAQEABj8Cf//EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAIAQEAAT8hP//aAAwDAQACAAMAAAAQA//EABURAQEAAAAAAAAAAAAAAAAAAABh/9oACAEDAQE/ELP/xAAVEQEBAAAAAAAAAAAAAAAAAAAAYf/aAAgBAgEBPxCb/8QAFRABAQAAAAAAAAAAAAAAAAAAAHH/2gAIAQEAAT8Qp//Z',
  'base64',
);
