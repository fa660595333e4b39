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
