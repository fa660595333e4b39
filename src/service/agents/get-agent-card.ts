import { escapeJson } from '../../kit/json-line.js';
import type { Skill } from '../../wire/agent.js';
import type { PathOf, ReplyOf } from '../../wire/endpoint.js';
import type { Actor, ServiceContext } from '../context.js';
import type { Query } from '../store/database.js';
import { skillsOf } from './agent-record.js';
import { findVisibleAgent } from './visible-agent.js';

export async function getAgentCard(
  _context: ServiceContext,
  actor: Actor,
  input: { path: PathOf<'getAgentCard'> },
  query: Query,
): Promise<ReplyOf<'getAgentCard'>> {
  const row = await findVisibleAgent(query, actor, input.path);
  const lines = [
    '---',
    `handle: ${quote(row.handle)}`,
    `display_name: ${quote(row.display_name)}`,
    `description: ${row.description === null ? 'null' : quote(row.description)}`,
    ...listSkills(skillsOf(row)),
    '---',
    '',
  ];
  return `${lines.join('\n')}${row.card_body === null ? '' : `\n${row.card_body.trimEnd()}\n`}`;
}

function listSkills(skills: readonly Skill[]): string[] {
  if (skills.length === 0) return ['skills: []'];
  return [
    'skills:',
    ...skills.flatMap(({ name, description }) => [
      `  - name: ${quote(name)}`,
      `    description: ${quote(description)}`,
    ]),
  ];
}

/** A JSON string on one line is a double-quoted YAML scalar (YAML 1.2 §1.3), so no text can end the front matter. */
function quote(text: string): string {
  return escapeJson(JSON.stringify(text)).replace(/[\ufffe\uffff]/g, (character) =>
    character === '\ufffe' ? '\\ufffe' : '\\uffff',
  );
}
