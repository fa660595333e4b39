import type { UpdateAgentRequest } from '../../../wire/agent.js';
import type { Context } from '../../context/context.js';
import { CliError, UsageError } from '../../terminal/cli-error.js';
import type { Words } from '../../words/words.js';
import { decodeText, readNamedFile, readStdin } from '../message/message-source.js';

const CARD_MAX_BYTES = 80_000;

/** What `agent create` and `agent update` say of an agent. */
export interface AgentFields {
  readonly displayName: string | undefined;
  readonly description: string | undefined;
  /** A path, or `-`. */
  readonly cardFile: string | undefined;
  readonly policy: 'open' | 'allowlist' | undefined;
  readonly visibility: 'public' | 'private' | undefined;
}

const oneOf = <const Choice extends string>(text: string | undefined, ...choices: readonly Choice[]) =>
  choices.find((choice) => choice === text);

export function readAgentFields(words: Words): AgentFields {
  return {
    displayName: words.text('display-name'),
    description: words.text('description'),
    cardFile: words.text('card'),
    policy: oneOf(words.text('policy'), 'open', 'allowlist'),
    visibility: oneOf(words.text('visibility'), 'public', 'private'),
  };
}

/** The members that were given; an empty description or card takes what is there away. */
export async function fieldsToSend(context: Context, fields: AgentFields): Promise<UpdateAgentRequest> {
  const { displayName, description, cardFile, policy, visibility } = fields;
  const card = cardFile === undefined ? undefined : await readCard(context, cardFile);
  return {
    ...(displayName !== undefined && { display_name: displayName }),
    ...(description !== undefined && { description: description === '' ? null : description }),
    ...(card !== undefined && { card_body: card === '' ? null : card }),
    ...(policy !== undefined && { inbound_policy: policy }),
    ...(visibility !== undefined && { visibility }),
  };
}

async function readCard(context: Context, path: string): Promise<string> {
  const isInput = path === '-';
  try {
    const bytes = await (isInput ? readStdin(context, CARD_MAX_BYTES) : readNamedFile(path, CARD_MAX_BYTES));
    return decodeText(bytes, isInput ? 'standard input' : path).trimEnd();
  } catch (error) {
    if (error instanceof CliError && error.code === 'ASP_FILE_TOO_LARGE')
      throw new UsageError(`The card is too large.`, { why: 'it is at most 20000 characters.', cause: error });
    throw error;
  }
}
