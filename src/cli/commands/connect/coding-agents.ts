import { join } from 'node:path';
import { quoteArgs } from '../../../kit/format.js';

import type { Folders } from '../../profile/paths.js';
import type { Entry } from './config-entry.js';
import { SKILL_NAME, SKILL_TEXT } from './skill-text.js';

/** A file of ours, or an entry of ours in someone else's file. */
export type Wanted =
  | { readonly kind: 'whole'; readonly path: string; readonly text: string }
  | {
      readonly kind: 'entry';
      readonly path: string;
      /** Used instead if it exists. */
      readonly or?: string;
      readonly entry: Entry;
    };

/** How a coding agent starts `asp`. */
export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  /** The profile and the agent. */
  readonly scope: readonly string[];
  readonly version: string;
}

/** A coding agent that asp can connect. */
export interface CodingAgent {
  readonly id: string;
  readonly name: string;
  /** What brings a message to its model: its own monitor, the tools that it started, or only `asp run`. */
  readonly wake: 'monitor' | 'mcp' | 'run';
  /** How, in a sentence. */
  readonly wakesBy: string;
  /** The version with which waking was measured; undefined: not measured. */
  readonly measuredWith: string | undefined;
  /** The skill folders of the user and of a project. */
  readonly skills: { readonly user: (home: Folders) => string; readonly project: string } | undefined;
  /** The files it needs, not counting the skill. */
  readonly files: (home: Folders, launch: Launch) => readonly Wanted[];
  /** A step that the user must take before the program starts the tools. */
  readonly needs?: string;
}

const SERVER = 'asp';

const mcpServer = ({ command, args, scope }: Launch, ...options: readonly string[]) => ({
  command,
  args: [...args, 'mcp', ...options, ...scope],
});

const claudeFolder = ({ named }: Folders): string => named('CLAUDE_CONFIG_DIR', '.claude');
const codexFolder = ({ named }: Folders): string => named('CODEX_HOME', '.codex');
const copilotFolder = ({ named }: Folders): string => named('COPILOT_HOME', '.copilot');
const kimiFolder = ({ named }: Folders): string => named('KIMI_CODE_HOME', '.kimi-code');
const openCodeFolder = ({ named }: Folders): string => join(named('XDG_CONFIG_HOME', '.config'), 'opencode');
const qwenFolder = ({ named }: Folders): string => named('QWEN_HOME', '.qwen');
const jsonText = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;

/**
 * The measurements are in docs/decisions/coding-agents.md. Claude Code loads a plugin from its skills folder, so all its files are ours:
 * its own settings file changes while it runs.
 */
export const CODING_AGENTS: readonly CodingAgent[] = [
  {
    id: 'claude-code',
    name: 'Claude Code',
    wake: 'monitor',
    wakesBy: 'the monitor of a plugin wakes it, even when it is idle',
    measuredWith: '2.1.330',
    skills: { user: (folders) => join(claudeFolder(folders), 'skills'), project: '.claude/skills' },
    files(folders, launch) {
      const plugin = join(claudeFolder(folders), 'skills', SKILL_NAME);
      const tail = [launch.command, ...launch.args, 'tail', '--for-agent', '--join', ...launch.scope];
      const manifest = {
        name: SKILL_NAME,
        version: launch.version,
        description: 'Messages from other agents. Written by asp connect; asp disconnect removes it.',
        mcpServers: { [SERVER]: mcpServer(launch) },
      };
      const monitors = [
        { name: 'inbox', description: 'messages from other agents (asp)', command: quoteArgs(tail), when: 'always' },
      ];
      return [
        { kind: 'whole', path: join(plugin, '.claude-plugin', 'plugin.json'), text: jsonText(manifest) },
        { kind: 'whole', path: join(plugin, 'monitors', 'monitors.json'), text: jsonText(monitors) },
      ];
    },
  },
  {
    id: 'codex',
    name: 'Codex',
    wake: 'run',
    wakesBy: 'asp run --acp "npx -y @zed-industries/codex-acp"; on its own it reads messages only during a turn',
    measuredWith: '0.16.0 of the adapter',
    skills: { user: (folders) => join(codexFolder(folders), 'skills'), project: '.codex/skills' },
    files: (folders, launch) => [
      {
        kind: 'entry',
        path: join(codexFolder(folders), 'config.toml'),
        entry: { format: 'toml', path: ['mcp_servers', SERVER], value: mcpServer(launch) },
      },
    ],
  },
  {
    id: 'opencode',
    name: 'OpenCode',
    wake: 'run',
    wakesBy: 'asp run --acp "opencode acp"; on its own it reads messages only during a turn',
    measuredWith: '1.18.33',
    skills: { user: (folders) => join(openCodeFolder(folders), 'skills'), project: '.opencode/skills' },
    files(folders, launch) {
      const { command, args } = mcpServer(launch);
      const value = { type: 'local', command: [command, ...args], enabled: true };
      return [
        {
          kind: 'entry',
          path: join(openCodeFolder(folders), 'opencode.json'),
          or: join(openCodeFolder(folders), 'opencode.jsonc'),
          entry: { format: 'json', path: ['mcp', SERVER], value },
        },
      ];
    },
  },
  {
    id: 'gemini',
    name: 'Gemini CLI',
    wake: 'run',
    wakesBy: 'asp run --acp "gemini --acp"; on its own it reads messages only during a turn',
    measuredWith: '0.61.0',
    needs: 'It starts tools only in folders that you trust: enter /permissions trust there.',
    skills: { user: ({ home }) => join(home, '.gemini', 'skills'), project: '.gemini/skills' },
    files: ({ home }, launch) => [jsonServer(join(home, '.gemini', 'settings.json'), mcpServer(launch))],
  },
  {
    id: 'copilot',
    name: 'GitHub Copilot CLI',
    wake: 'run',
    wakesBy: 'asp run --acp "copilot --acp"; on its own it reads messages only during a turn',
    measuredWith: '1.0.102',
    skills: { user: (folders) => join(copilotFolder(folders), 'skills'), project: '.github/skills' },
    files: (folders, launch) => [
      jsonServer(join(copilotFolder(folders), 'mcp-config.json'), {
        type: 'local',
        ...mcpServer(launch),
        tools: ['*'],
      }),
    ],
  },
  {
    id: 'qwen',
    name: 'Qwen Code',
    wake: 'mcp',
    wakesBy: 'asp mcp --wake wakes it, even when it is idle',
    measuredWith: '0.24.4',
    skills: { user: (folders) => join(qwenFolder(folders), 'skills'), project: '.qwen/skills' },
    files: (folders, launch) => [jsonServer(join(qwenFolder(folders), 'settings.json'), mcpServer(launch, '--wake'))],
  },
  {
    id: 'kimi',
    name: 'Kimi Code',
    wake: 'run',
    wakesBy: 'asp run --acp "kimi acp"; on its own it reads messages only during a turn',
    measuredWith: '2.1.0',
    skills: { user: (folders) => join(kimiFolder(folders), 'skills'), project: '.kimi-code/skills' },
    files: (folders, launch) => [jsonServer(join(kimiFolder(folders), 'mcp.json'), mcpServer(launch))],
  },
  {
    id: 'cursor',
    name: 'Cursor',
    wake: 'run',
    wakesBy: 'asp run --acp "cursor-agent acp"; on its own it reads messages only during a turn',
    measuredWith: undefined,
    skills: undefined,
    files: ({ home }, launch) => [jsonServer(join(home, '.cursor', 'mcp.json'), mcpServer(launch))],
  },
];

/** The skill, if it has a folder for skills, and its other files. */
export function filesFor({ skills, files }: CodingAgent, folders: Folders, launch: Launch): readonly Wanted[] {
  return [...(skills === undefined ? [] : [toSkillFile(skills.user(folders))]), ...files(folders, launch)];
}

/** The skill in a folder of skills. */
export function toSkillFile(folder: string): Wanted {
  return { kind: 'whole', path: join(folder, SKILL_NAME, 'SKILL.md'), text: SKILL_TEXT };
}

function jsonServer(path: string, value: Entry['value']): Wanted {
  return { kind: 'entry', path, entry: { format: 'json', path: ['mcpServers', SERVER], value } };
}
