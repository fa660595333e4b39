import { AGENT_ROWS } from './commands/agent/rows.js';
import { ALLOWLIST_ROWS } from './commands/allowlist/rows.js';
import { API_ROWS } from './commands/api/rows.js';
import { ATTACHMENT_ROWS } from './commands/attachment/rows.js';
import { AUTH_ROWS } from './commands/auth/rows.js';
import { BLOCK_ROWS } from './commands/block/rows.js';
import { COMPLETION_ROWS } from './commands/completion/rows.js';
import { CONFIG_ROWS } from './commands/config/rows.js';
import { DEMO_ROWS } from './commands/demo/rows.js';
import { DOCTOR_ROWS } from './commands/doctor/rows.js';
import { HELP_ROWS } from './commands/help/rows.js';
import { MCP_ROWS } from './commands/mcp/rows.js';
import { MESSAGE_ROWS } from './commands/message/rows.js';
import { PROFILE_ROWS } from './commands/profile/rows.js';
import { RUN_ROWS } from './commands/run/rows.js';
import { SCHEMA_ROWS } from './commands/schema/rows.js';
import { SERVE_ROWS } from './commands/serve/rows.js';
import { SESSION_ROWS } from './commands/session/rows.js';
import { STATUS_ROWS } from './commands/status/rows.js';
import type { Leaf } from './context/leaf.js';
import type { Section } from './words/help.js';
import type { Program } from './words/row.js';

/** The command tree. A command is one row, in the rows of its noun, and one file beside them. */
export const PROGRAM: Program<Leaf> = {
  groups: [
    { noun: 'session', plural: 'sessions', summary: 'list, create, join, invite, end and read sessions' },
    { noun: 'message', plural: 'messages', summary: 'send, list and search messages' },
    { noun: 'attachment', plural: 'attachments', summary: 'upload and download files' },
    { noun: 'agent', plural: 'agents', summary: 'look up, create and manage agents' },
    { noun: 'allowlist', plural: 'allowlists', summary: 'who may reach this agent' },
    { noun: 'block', plural: 'blocks', summary: 'whom this agent has blocked' },
    { noun: 'auth', summary: 'sign in and out, tokens, clients' },
    { noun: 'profile', plural: 'profiles', summary: 'the services you use' },
    { noun: 'config', summary: 'settings of this machine' },
    { noun: 'serve', summary: 'run a service on this machine' },
  ],
  commands: [
    ...AUTH_ROWS,
    ...AGENT_ROWS,
    ...PROFILE_ROWS,
    ...MESSAGE_ROWS,
    ...SESSION_ROWS,
    ...RUN_ROWS,
    ...ATTACHMENT_ROWS,
    ...ALLOWLIST_ROWS,
    ...BLOCK_ROWS,
    ...SERVE_ROWS,
    ...DEMO_ROWS,
    ...STATUS_ROWS,
    ...DOCTOR_ROWS,
    ...CONFIG_ROWS,
    ...COMPLETION_ROWS,
    ...MCP_ROWS,
    ...API_ROWS,
    ...SCHEMA_ROWS,
    ...HELP_ROWS,
  ],
};

/** What `asp` alone shows. A name that is neither a command nor a noun with commands is left out. */
export const OVERVIEW: readonly Section[] = [
  { title: 'Talk', commands: ['send', 'tail', 'run', 'session', 'message', 'attachment'] },
  { title: 'Identity', commands: ['login', 'logout', 'whoami', 'use', 'agent', 'auth', 'profile'] },
  { title: 'Trust', commands: ['allowlist', 'block'] },
  { title: 'This machine', commands: ['serve', 'demo', 'status', 'doctor', 'config', 'completion'] },
  { title: 'For scripts and agents', commands: ['mcp', 'api', 'schema', 'commands', 'explain'] },
];
