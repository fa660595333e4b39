import type { Message } from '../../../wire/message.js';

const member = (part: Readonly<Record<string, unknown>>, name: string): string | undefined => {
  const value = part[name];
  return typeof value === 'string' ? value : undefined;
};

/** What a message says, as text: its text parts, and a line for each of the others. */
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
