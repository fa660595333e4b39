import { ATTACHMENT_MAX_BYTES } from './limit.js';

/** The supported types (spec: Other limits); `signature`: the leading bytes an upload must show. */
export const ATTACHMENT_TYPE = {
  'application/pdf': { extensions: ['pdf'], signatures: ['255044462d'] },
  'application/json': { extensions: ['json'], signatures: [] },
  'image/png': { extensions: ['png'], signatures: ['89504e470d0a1a0a'] },
  'image/jpeg': { extensions: ['jpg', 'jpeg'], signatures: ['ffd8ff'] },
  'image/gif': { extensions: ['gif'], signatures: ['474946383761', '474946383961'] },
  'text/plain': { extensions: ['txt', 'log', 'text'], signatures: [] },
  'text/markdown': { extensions: ['md', 'markdown'], signatures: [] },
  'text/csv': { extensions: ['csv'], signatures: [] },
} as const satisfies Record<string, { extensions: readonly string[]; signatures: readonly string[] }>;

/** A MIME type that the service accepts. */
export type AttachmentType = keyof typeof ATTACHMENT_TYPE;

/** Whether the service accepts this MIME type. */
export function isAttachmentType(type: string): type is AttachmentType {
  return Object.hasOwn(ATTACHMENT_TYPE, type);
}

/** The supported type of a file name by its extension, or undefined. */
export function attachmentTypeOfName(name: string): AttachmentType | undefined {
  const extension = name.slice(name.lastIndexOf('.') + 1).toLowerCase();
  for (const [type, row] of Object.entries(ATTACHMENT_TYPE))
    if ((row.extensions as readonly string[]).includes(extension)) return type as AttachmentType;
  return undefined;
}

/** Whether `head`, the first bytes of a file (16 are enough), carries the signature that `type` requires. */
export function matchesSignature(type: AttachmentType, head: Uint8Array): boolean {
  const { signatures } = ATTACHMENT_TYPE[type];
  if (signatures.length === 0) return true;
  const hex = Array.from(head.subarray(0, 16), (byte) => byte.toString(16).padStart(2, '0')).join('');
  return signatures.some((signature) => hex.startsWith(signature));
}

/** How much of the beginning of a file {@link recognizeFile} needs, in bytes. */
export const HEAD_BYTES = 16;

/** A file before it is uploaded. */
export interface FileFacts {
  readonly filename: string;
  /** In bytes. */
  readonly size: number;
  /** The first {@link HEAD_BYTES} bytes. */
  readonly head: Uint8Array;
  /** The type to use if the name does not tell. */
  readonly otherwise: AttachmentType | undefined;
}

/** Why a service would not accept a file. */
export interface FileFault {
  readonly code: 'ASP_FILE_TYPE' | 'ASP_FILE_TOO_LARGE';
  readonly message: string;
  readonly why?: string;
}

/** The type of a file. Its name determines it, and its first bytes must match. */
export function recognizeFile({ filename, size, head, otherwise }: FileFacts): AttachmentType | FileFault {
  const type = attachmentTypeOfName(filename) ?? otherwise;
  if (type === undefined) {
    const extensions = Object.values(ATTACHMENT_TYPE).flatMap((row) => row.extensions);
    const why = `supported: ${extensions.join(', ')}.`;
    return { code: 'ASP_FILE_TYPE', message: `${filename} has an unsupported file type.`, why };
  }
  if (type === 'text/plain' && head.includes(0))
    return { code: 'ASP_FILE_TYPE', message: `${filename} is not a text file.` };
  if (size > ATTACHMENT_MAX_BYTES)
    return {
      code: 'ASP_FILE_TOO_LARGE',
      message: `${filename} is larger than ${ATTACHMENT_MAX_BYTES / 1024 ** 2} MiB.`,
    };
  if (matchesSignature(type, head)) return type;
  const why = 'its contents do not match its extension.';
  return { code: 'ASP_FILE_TYPE', message: `${filename} is not a valid ${type} file.`, why };
}
