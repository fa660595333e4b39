import type { Context } from '../../context/context.js';
import { read } from '../../context/write.js';
import { relativeTime } from '../../terminal/relative-time.js';
import { readId } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { aboutAttachment, sizeText } from './attachment-facts.js';

export interface ShowAttachmentOptions {
  readonly id: string;
}

export function parse(words: Words): ShowAttachmentOptions {
  return { id: readId('attachment', words.arguments[0] ?? '') };
}

export async function run(context: Context, { id }: ShowAttachmentOptions): Promise<void> {
  const link = await read(context, 'getAttachment', { path: { attachment_id: id } }, aboutAttachment(id));
  const now = context.clock.now();
  await context.output.document(link, (safe, style) =>
    [
      `${style.bold(safe.filename.replace(/\s+/g, ' '))}  ${safe.content_type}, ${sizeText(safe.size)}`,
      `id       ${safe.id}`,
      `address  ${safe.url.replace(/\s+/g, '')}`,
      `expires  ${relativeTime(safe.url_expires_at, now)}`,
    ].join('\n'),
  );
}
