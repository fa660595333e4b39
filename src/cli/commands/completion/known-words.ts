import { ENDPOINT } from '../../../wire/endpoint.js';
import { EVENT_TYPES } from '../../../wire/event.js';
import { SCOPE_DESCRIPTION, SCOPES } from '../../../wire/scope.js';
import type { LoadedProgram } from '../../command.js';
import { GLOBAL_OPTIONS } from '../../options.js';
import { SETTINGS } from '../../profile/config.js';
import { METHODS } from '../api.js';
import { SETTING_ABOUT } from '../config.js';
import { CODING_AGENTS } from '../connect/coding-agents.js';
import { MEANING } from '../help/explain.js';
import { TOPICS } from '../help/topics.js';
import { KINDS } from '../run/run.js';
import { everySchema, findFields } from '../schema/schemas.js';
import { TRIGGER_EVENTS } from '../serve/rehearse.js';
import type { Candidate, Vocabulary } from './candidates.js';
import { SHELLS } from './completion.js';

const plain = (values: readonly string[]): Candidate[] => values.map((value) => [value, '']);

/**
 * Everything that completions know before the user types. The build writes it into the program, because collecting it
 * takes long.
 */
export function collectVocabulary({ nouns, commands }: LoadedProgram): Vocabulary {
  return {
    nouns,
    commands: commands.map(({ path, aliases, summary, arguments: positional, options }) => {
      return { path, aliases, summary, arguments: positional, options };
    }),
    everywhere: GLOBAL_OPTIONS,
    lists: {
      codes: Object.entries(MEANING).map(([code, { means }]) => [code, means]),
      conditions: [
        ['joined', 'someone joins; joined:<handle>: this agent'],
        ['message', 'a message from another agent'],
        ['reply', 'the reply to your message'],
        ['ended', 'the session ends'],
        ['left', 'someone leaves; left:<handle>: this agent'],
      ],
      endpoints: plain([...new Set(Object.values(ENDPOINT).map(({ path }) => path.slice(1)))].filter(isPlainPath)),
      keys: [...SETTING_ABOUT],
      kinds: [
        ...plain(KINDS),
        ['same-owner=', 'only for agents of the same owner'],
        ['allowlisted=', 'only for agents on the allowlist'],
      ],
      methods: plain(METHODS),
      schemas: everySchema().map(({ name, kind }) => [name, kind]),
      scopes: SCOPES.map((scope) => [scope, SCOPE_DESCRIPTION[scope]]),
      programs: CODING_AGENTS.map(({ id, name }) => [id, name]),
      skilled: CODING_AGENTS.flatMap(({ id, name, skills }): Candidate[] => (skills === undefined ? [] : [[id, name]])),
      shells: plain(SHELLS),
      systems: plain(['github', 'gitlab', 'generic']),
      topics: Object.entries(TOPICS).map(([topic, text]) => [topic, text.split('\n', 1)[0] ?? '']),
      triggers: plain(TRIGGER_EVENTS),
      types: EVENT_TYPES.map((type) => [type.replace(/^session\./, ''), type]),
    },
    settings: Object.fromEntries(
      Object.entries(SETTINGS).flatMap(([name, setting]) =>
        'choices' in setting ? [[name, plain(setting.choices)]] : [],
      ),
    ),
    fields: Object.fromEntries(commands.flatMap(({ path }) => listFields(path))),
  };
}

/** A path that can be requested without changes. */
const isPlainPath = (path: string): boolean => !path.includes('{');

function listFields(path: string): [string, readonly string[]][] {
  const fields = findFields(path);
  return fields === undefined ? [] : [[path, fields]];
}
