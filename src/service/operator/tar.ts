import type { FileHandle } from 'node:fs/promises';
import { OperatorError } from '../core/errors.js';

/** The part of the ustar format (POSIX.1-1988) that `tar -x` needs to read our archives. */

const BLOCK = 512;
const MAGIC = 'ustar\u000000';
/** The largest size that fits the octal digits of a header; beyond it GNU's binary form is used. */
const OCTAL_SIZE_MAX = 0o77777777777;

export interface TarEntry {
  readonly name: string;
  readonly kind: 'file' | 'directory';
  readonly size: number;
}

export interface FoundEntry extends TarEntry {
  /** Where its bytes begin in the archive. */
  readonly offset: number;
}

/** Two empty blocks end an archive. */
export const TAR_END = Buffer.alloc(2 * BLOCK);

export function tarHeader(entry: TarEntry, facts: { readonly modifiedAtS: number }): Buffer {
  const header = Buffer.alloc(BLOCK);
  const octal = (value: number, offset: number, length: number): void => {
    header.write(value.toString(8).padStart(length - 1, '0'), offset, 'latin1');
  };
  header.write(entry.name, 0, 100, 'latin1');
  octal(entry.kind === 'file' ? 0o600 : 0o700, 100, 8);
  octal(process.getuid?.() ?? 0, 108, 8);
  octal(process.getgid?.() ?? 0, 116, 8);
  writeSize(header, entry.size);
  octal(facts.modifiedAtS, 136, 12);
  header.write(' '.repeat(8), 148, 'latin1');
  header.write(entry.kind === 'file' ? '0' : '5', 156, 'latin1');
  header.write(MAGIC, 257, 'latin1');
  octal(computeChecksum(header), 148, 7);
  return header;
}

/** The padding after `size` bytes of content. */
export function tarPadding(size: number): Buffer {
  return Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK);
}

/** The entries of an archive, in order. Anything but a complete archive of files and directories is refused. */
export async function* listTar(file: FileHandle): AsyncGenerator<FoundEntry> {
  const { size: total } = await file.stat();
  for (let position = 0; ; ) {
    const header = await readBlock(file, position);
    position += BLOCK;
    if (header.every((byte) => byte === 0)) return;
    const entry = readHeader(header);
    if (position + entry.size > total) throw broken();
    yield { ...entry, offset: position };
    position += Math.ceil(entry.size / BLOCK) * BLOCK;
  }
}

async function readBlock(file: FileHandle, position: number): Promise<Buffer> {
  const block = Buffer.alloc(BLOCK);
  const { bytesRead } = await file.read(block, 0, BLOCK, position);
  if (bytesRead < BLOCK) throw broken();
  return block;
}

function readHeader(header: Buffer): TarEntry {
  const text = (offset: number, length: number): string =>
    header.toString('latin1', offset, offset + length).replace(/[\0 ].*$/s, '');
  const claimed = Number.parseInt(text(148, 8), 8);
  header.fill(' ', 148, 156);
  const type = text(156, 1);
  const isKnown = header.toString('latin1', 257, 262) === 'ustar' && (type === '0' || type === '' || type === '5');
  if (computeChecksum(header) !== claimed || !isKnown) throw broken();
  return { name: text(0, 100), kind: type === '5' ? 'directory' : 'file', size: readSize(header, text(124, 12)) };
}

function writeSize(header: Buffer, size: number): void {
  if (size <= OCTAL_SIZE_MAX) {
    header.write(size.toString(8).padStart(11, '0'), 124, 'latin1');
    return;
  }
  header[124] = 0x80;
  header.writeBigUInt64BE(BigInt(size), 128);
}

function readSize(header: Buffer, octal: string): number {
  const size = header[124] === 0x80 ? Number(header.readBigUInt64BE(128)) : Number.parseInt(octal, 8);
  if (!Number.isSafeInteger(size) || size < 0) throw broken();
  return size;
}

function computeChecksum(header: Buffer): number {
  return header.reduce((sum, byte) => sum + byte, 0);
}

function broken(): OperatorError {
  return new OperatorError('BROKEN', 'Not an asp backup, or truncated.');
}
