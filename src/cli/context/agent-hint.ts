import type { Environment } from '../../kit/environment.js';

/**
 * Set to a value in each command that a coding agent starts. Sources: Claude Code, Gemini CLI (shellExecutionService), OpenCode
 * (index.ts), Codex (in its sandbox on macOS; the thread everywhere), Cursor CLI, GitHub Copilot CLI and Qwen Code (the
 * environment of a command that they ran); AI_AGENT is a convention for all others.
 */
export const AGENT_VARIABLES = [
  'AI_AGENT',
  'CLAUDECODE',
  'CODEX_SANDBOX',
  'CODEX_THREAD_ID',
  'COPILOT_CLI',
  'CURSOR_AGENT',
  'GEMINI_CLI',
  'OPENCODE',
  'QWEN_CODE',
] as const;

/** Whether a coding agent runs this command. What `asp run` starts has its own instructions. */
export function isAgentCalling(environment: Environment): boolean {
  const { ASP_SESSION_ID: handled = '' } = environment;
  return handled === '' && AGENT_VARIABLES.some((name) => (environment[name] ?? '') !== '');
}

const FENCE = 'with --fence, text of other agents is marked, with who wrote it.';

interface Better {
  readonly hint: string;
  /** With one of these, the command is good as it is. */
  readonly unless: readonly string[];
  /** Without this, the command prints nothing of others. */
  readonly if?: string;
}

/** Commands with a better form for a model. */
const BETTER: Readonly<Record<string, Better>> = {
  inbox: { hint: FENCE, unless: ['fence'] },
  'inbox read': { hint: FENCE, unless: ['fence'] },
  'message list': { hint: FENCE, unless: ['fence'] },
  'message send': { hint: FENCE, unless: ['fence'], if: 'wait' },
  ask: { hint: FENCE, unless: ['fence'] },
  reply: { hint: FENCE, unless: ['fence'], if: 'wait' },
  'session tail': {
    hint: 'asp tail --for-agent prints one short line for each message, with who wrote it.',
    unless: ['for-agent', 'fence', 'exec', 'forward', 'no-follow'],
  },
};

/** The better form of a command, for a model. */
export function findAgentHint(path: string, isSet: (option: string) => boolean): string | undefined {
  const better = Object.hasOwn(BETTER, path) ? BETTER[path] : undefined;
  if (better === undefined || better.unless.some(isSet)) return undefined;
  if (better.if !== undefined && !isSet(better.if)) return undefined;
  return `For a coding agent: ${better.hint}`;
}

/** After a mistake. */
export const HELP_HINT = 'For a coding agent: asp help agents has what you need.';
