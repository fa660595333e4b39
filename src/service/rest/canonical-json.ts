import { createHash } from 'node:crypto';

/** JSON whose bytes do not depend on the order of members (RFC 8785 §3.2.3, as far as comparing needs it). */
function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const members = Object.keys(value).sort();
  return `{${members.map((name) => `${JSON.stringify(name)}:${canonicalJson(Reflect.get(value, name))}`).join(',')}}`;
}

/** What makes two bodies the same one: their content, whatever the order of members. */
export function fingerprintOf(body: unknown): string {
  return createHash('sha256').update(canonicalJson(body)).digest('hex');
}
