import type { Handle, OwnerGlob } from '../../wire/handle.js';
import { ID_PREFIX } from '../../wire/id.js';
import type { Query } from '../store/database.js';
import { seal } from '../store/service-key.js';

const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const TIME_LENGTH = 10;
const CHANCE_LENGTH = 16;
const EARLIEST_MS = Date.UTC(2025, 0, 1);
const SPAN_MS = 365 * 24 * 60 * 60 * 1000;

/** The id shown for a handle whose agent may not be known of, or is not: always the same, and like any other. */
export async function hiddenAgentId(query: Query, handle: Handle | OwnerGlob): Promise<string> {
  const bytes = await seal(query, 'hidden-agent', handle);
  let time = EARLIEST_MS + (bytes.readUIntBE(0, 6) % SPAN_MS);
  let text = '';
  for (let place = 0; place < TIME_LENGTH; place += 1) {
    text = ALPHABET.charAt(time % 32) + text;
    time = Math.floor(time / 32);
  }
  const chance = [...bytes.subarray(6, 6 + CHANCE_LENGTH)].map((byte) => ALPHABET.charAt(byte % 32));
  return `${ID_PREFIX.agent}${text}${chance.join('')}`;
}
