const SINGLE_RANGE = /^bytes=(\d{0,15})-(\d{0,15})$/;

/** The bytes to send, both ends included. */
export interface ByteRange {
  readonly first: number;
  readonly last: number;
}

/**
 * The part of `size` bytes that a Range header asks for. Undefined: send everything, as for a header that is absent,
 * malformed or asks for several ranges (RFC 9110 §14.2). `unsatisfiable`: nothing of it is there (§15.5.17).
 */
export function readByteRange(header: string | undefined, size: number): ByteRange | 'unsatisfiable' | undefined {
  const match = SINGLE_RANGE.exec(header?.trim() ?? '');
  const [, from = '', to = ''] = match ?? [];
  if (match === null || (from === '' && to === '')) return undefined;
  if (from === '') return suffixRange(Number(to), size);
  const first = Number(from);
  if (to !== '' && Number(to) < first) return undefined;
  if (first >= size) return 'unsatisfiable';
  return { first, last: to === '' ? size - 1 : Math.min(Number(to), size - 1) };
}

function suffixRange(length: number, size: number): ByteRange | 'unsatisfiable' {
  if (length === 0 || size === 0) return 'unsatisfiable';
  return { first: Math.max(0, size - length), last: size - 1 };
}
