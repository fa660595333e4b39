import { ATTACHMENT_TYPE, type AttachmentType, hasSignatureOf } from '../../wire/attachment.js';
import { createJsonChecker } from './json-checker.js';

const SIGNATURE_MAX_BYTES = 16;

/** Reads a file as it arrives, and says whether it is what its type promises. */
export interface ContentChecker {
  /** False: it is not, whatever follows. */
  push(chunk: Uint8Array): boolean;
  end(): boolean;
}

/** Binary types by their signature, text types as UTF-8 without NUL, JSON also by its grammar (wire: Content and attachments). */
export function createContentChecker(type: AttachmentType): ContentChecker {
  if (ATTACHMENT_TYPE[type].signatures.length > 0) return createSignatureChecker(type);
  const text = createTextChecker();
  if (type !== 'application/json') return text;
  const json = createJsonChecker();
  return {
    push: (chunk) => text.push(chunk) && json.push(chunk),
    end: () => text.end() && json.end(),
  };
}

function createSignatureChecker(type: AttachmentType): ContentChecker {
  let head = Buffer.alloc(0);
  return {
    push(chunk) {
      if (head.length >= SIGNATURE_MAX_BYTES) return true;
      head = Buffer.concat([head, chunk.subarray(0, SIGNATURE_MAX_BYTES - head.length)]);
      return head.length < SIGNATURE_MAX_BYTES || hasSignatureOf(type, head);
    },
    end: () => hasSignatureOf(type, head),
  };
}

function createTextChecker(): ContentChecker {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const decodes = (chunk: Uint8Array | undefined): boolean => {
    try {
      decoder.decode(chunk, { stream: chunk !== undefined });
      return true;
    } catch {
      return false;
    }
  };
  return {
    push: (chunk) => !chunk.includes(0) && decodes(chunk),
    end: () => decodes(undefined),
  };
}
