import type { Command, Program } from './command.js';
import {
  agentCard,
  agentCreate,
  agentList,
  agentRemove,
  agentSearch,
  agentShow,
  agentUpdate,
  agentUse,
} from './commands/agent.js';
import { aliasList, aliasRemove, aliasSet } from './commands/alias.js';
import { allowlistAdd, allowlistApply, allowlistCheck, allowlistList, allowlistRemove } from './commands/allowlist.js';
import { api } from './commands/api.js';
import {
  attachmentDownload,
  attachmentList,
  attachmentShow,
  attachmentUpload,
} from './commands/attachment/attachment.js';
import {
  authCi,
  authClients,
  authLogin,
  authLogout,
  authRefresh,
  authStatus,
  authToken,
  authWhoami,
} from './commands/auth/auth.js';
import { blockAdd, blockList, blockRemove } from './commands/block.js';
import { chat } from './commands/chat/chat.js';
import { completion } from './commands/completion/completion.js';
import { configEdit, configGet, configList, configPath, configSet, configUnset } from './commands/config.js';
import { connect, disconnect, skillInstall, skillShow } from './commands/connect/connect.js';
import { demo } from './commands/demo/demo.js';
import { doctor } from './commands/doctor/doctor.js';
import { commands, explain, help, version } from './commands/help/help.js';
import { inbox, inboxRead } from './commands/inbox/inbox.js';
import { knockDismiss, knockList } from './commands/knock.js';
import { mcp } from './commands/mcp/mcp.js';
import { messageList, messageSearch } from './commands/message/message.js';
import { mock } from './commands/mock/mock.js';
import { open } from './commands/open.js';
import { profileAdd, profileList, profileRemove, profileSet, profileShow, profileUse } from './commands/profile.js';
import { replay } from './commands/replay/replay.js';
import { run } from './commands/run/run.js';
import { schema } from './commands/schema/schema.js';
import { ask } from './commands/send/ask.js';
import { reply } from './commands/send/reply.js';
import { messageSend } from './commands/send/send.js';
import {
  serveAccountExport,
  serveAccountList,
  serveAccountOperator,
  serveAccountRemove,
  serveAccountResetPassword,
  serveAccountResume,
  serveAccountShow,
  serveAccountSuspend,
  serveAccountTier,
  serveInviteCreate,
  serveInviteList,
  serveInviteRevoke,
} from './commands/serve/accounts.js';
import { serveBackup, serveReset, serveRestore } from './commands/serve/data.js';
import { serveInstall, serveUninstall } from './commands/serve/install.js';
import {
  serveAgentAdd,
  serveAgentList,
  serveAgentPause,
  serveAgentRemove,
  serveAgentResume,
  serveClientAdd,
  serveClientList,
  serveClientRevoke,
  serveKeysList,
  serveKeysRotate,
  serveOpen,
  serveRetention,
  serveStatus,
  serveStop,
} from './commands/serve/operate.js';
import { serveClockAdvance, serveTrigger } from './commands/serve/rehearse.js';
import { serve, serveLogs } from './commands/serve/serve.js';
import {
  sessionCreate,
  sessionEnd,
  sessionExport,
  sessionInvite,
  sessionJoin,
  sessionLeave,
  sessionList,
  sessionReopen,
  sessionShow,
  sessionWait,
} from './commands/session/session.js';
import { status } from './commands/status.js';
import { sessionEvents, sessionTail } from './commands/tail/tail.js';

const COMMANDS: readonly Command[] = [
  ...[authLogin, authLogout, authWhoami, authStatus, authToken, authRefresh, authClients, authCi],
  ...[agentUse, agentShow, agentCard, agentList, agentSearch, agentCreate, agentUpdate, agentRemove],
  ...[profileList, profileShow, profileAdd, profileSet, profileRemove, profileUse],
  ...[messageSend, ask, chat, reply, inbox, inboxRead, messageList, messageSearch],
  ...[sessionTail, sessionList, sessionShow, sessionCreate, sessionJoin, sessionInvite, sessionLeave, sessionEnd],
  ...[sessionReopen, sessionEvents, sessionWait, sessionExport],
  ...[run, mock, replay],
  ...[attachmentUpload, attachmentDownload, attachmentShow, attachmentList],
  ...[allowlistList, allowlistAdd, allowlistRemove, allowlistApply, allowlistCheck],
  ...[knockList, knockDismiss],
  ...[blockList, blockAdd, blockRemove],
  ...[serve, serveStatus, serveStop, serveOpen, serveLogs, serveReset, serveBackup, serveRestore],
  ...[serveInstall, serveUninstall],
  ...[serveKeysList, serveKeysRotate, serveRetention, serveClockAdvance, serveTrigger],
  ...[serveAgentList, serveAgentAdd, serveAgentRemove, serveAgentPause, serveAgentResume],
  ...[serveClientList, serveClientAdd, serveClientRevoke],
  ...[serveAccountList, serveAccountShow, serveAccountSuspend, serveAccountResume],
  ...[serveAccountTier, serveAccountOperator, serveAccountExport, serveAccountRemove, serveAccountResetPassword],
  ...[serveInviteCreate, serveInviteList, serveInviteRevoke],
  ...[demo, open, status, doctor],
  ...[configList, configGet, configSet, configUnset, configEdit, configPath],
  ...[aliasList, aliasSet, aliasRemove],
  ...[connect, disconnect, skillShow, skillInstall],
  ...[completion, mcp, api, schema, help, version, commands, explain],
];

/** The command tree, in the order of the reference. */
export const PROGRAM: Program = {
  nouns: [
    { noun: 'session', plural: 'sessions', summary: 'list, create, join, invite, end and read sessions' },
    { noun: 'inbox', summary: 'read unread messages and invitations' },
    { noun: 'message', plural: 'messages', summary: 'send, list and search messages' },
    { noun: 'attachment', plural: 'attachments', summary: 'upload and download files' },
    { noun: 'agent', plural: 'agents', summary: 'look up, create and manage agents' },
    { noun: 'allowlist', plural: 'allowlists', summary: 'manage who may reach this agent' },
    { noun: 'knock', plural: 'knocks', summary: 'see who knocked while the policy is hold' },
    { noun: 'block', plural: 'blocks', summary: 'manage the agents that this agent blocks' },
    { noun: 'auth', summary: 'sign in and out, manage tokens and clients' },
    { noun: 'profile', plural: 'profiles', summary: 'manage the services you use' },
    { noun: 'skill', summary: 'teach a coding agent to use asp' },
    { noun: 'config', summary: 'change settings of this machine' },
    { noun: 'alias', plural: 'aliases', summary: 'create shortcuts for commands' },
    { noun: 'serve', summary: 'run a service on this machine' },
  ],
  commands: COMMANDS,
};
