import type { Message } from '../../../wire/schemas/message.js';
import { localTime } from '../../terminal/relative-time.js';
import type { Style } from '../../terminal/style.js';

const member = (part: Readonly<Record<string, unknown>>, name: string): string | undefined => {
  const value = part[name];
  return typeof value === 'string' ? value : undefined;
};

/** The content of a message as text: its text parts, and one line for each other part. */
export function messageText(content: Message['content']): string {
  if (typeof content === 'string') return content;
  return content
    .map((part) => {
      if (part.type === 'text') return member(part, 'text') ?? '';
      if (part.type === 'data') return JSON.stringify(part['data'] ?? null);
      const reference = member(part, 'attachment_id') ?? member(part, 'url') ?? (member(part, 'data_uri') && 'inline');
      return `[${[part.type, member(part, 'name'), reference].filter((text) => text !== undefined).join(' ')}]`;
    })
    .join('\n');
}

/** A message for a person to read: time, sender and the whole text. It must be safe for a terminal already. */
export function formatMessage({ sender, content, created_at: at }: Message, style: Style, nowMs: number): string {
  const head = `${style.dim(localTime(at, nowMs))} ${style.cyan(sender)}`;
  const lines = messageText(content).split('\n');
  return lines.length === 1 ? `${head}  ${lines[0]}` : [head, ...lines.map((line) => `  ${line}`)].join('\n');
}
