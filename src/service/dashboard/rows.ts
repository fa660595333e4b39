import { PATH } from '../authorization-server/metadata.js';
import { actAllowlist, actRemoveEntry, allowlistAgain, showAllowlist } from './agents/allowlist.js';
import { actBlock, actUnblock, blocksAgain, showBlocks } from './agents/blocks.js';
import { actNewAgent, newAgentAgain, showNewAgent } from './agents/create.js';
import { showAgents } from './agents/list.js';
import { accessAgain, actAccess, actPause, showAgent } from './agents/overview.js';
import { actProfile, profileAgain, showProfile } from './agents/profile.js';
import { actRemoveAgent, showRemoveAgent } from './agents/remove.js';
import { actDisconnect, showApplications, showDisconnect } from './applications/applications.js';
import { actRevokeClient, showClient, showRevokeClient } from './clients/client.js';
import { actNewClient, newClientAgain, showNewClient } from './clients/create.js';
import { showClients } from './clients/list.js';
import { showSessions } from './sessions/list.js';
import { fetchAttachment, showEvent, showTranscript } from './sessions/transcript.js';
import { actEndBrowser, actEndOtherBrowsers } from './settings/browsers.js';
import { actDeleteAccount, deleteAccountAgain, showDeleteAccount } from './settings/delete.js';
import { actExport } from './settings/export.js';
import { actPassword, passwordAgain } from './settings/password.js';
import { showSettings } from './settings/settings.js';
import { moved, type PageRow } from './visit.js';

const AGENT = '/dashboard/agents/:name';
const SESSION = '/dashboard/sessions/:session_id';

/** Every address of the dashboard. */
export const PAGE_ROWS: readonly PageRow[] = [
  { path: PATH.dashboard, show: async () => moved('/dashboard/agents') },
  { path: `${PATH.dashboard}/`, show: async () => moved('/dashboard/agents') },
  { path: '/dashboard/agents', show: showAgents },
  { path: '/dashboard/new-agent', show: showNewAgent, act: actNewAgent, again: newAgentAgain },
  { path: AGENT, show: showAgent, act: actAccess, again: accessAgain },
  { path: `${AGENT}/pause`, act: actPause },
  { path: `${AGENT}/profile`, show: showProfile, act: actProfile, again: profileAgain },
  { path: `${AGENT}/allowlist`, show: showAllowlist, act: actAllowlist, again: allowlistAgain },
  { path: `${AGENT}/allowlist/remove`, act: actRemoveEntry },
  { path: `${AGENT}/blocks`, show: showBlocks, act: actBlock, again: blocksAgain },
  { path: `${AGENT}/blocks/remove`, act: actUnblock },
  { path: `${AGENT}/remove`, show: showRemoveAgent, act: actRemoveAgent },
  { path: '/dashboard/sessions', show: showSessions },
  { path: SESSION, show: showTranscript },
  { path: `${SESSION}/events/:sequence`, show: showEvent },
  { path: `${SESSION}/attachments/:attachment_id`, show: fetchAttachment },
  { path: '/dashboard/clients', show: showClients },
  { path: '/dashboard/new-client', show: showNewClient, act: actNewClient, again: newClientAgain },
  { path: '/dashboard/clients/:id', show: showClient },
  { path: '/dashboard/clients/:id/revoke', show: showRevokeClient, act: actRevokeClient },
  { path: '/dashboard/settings', show: showSettings, act: actPassword, again: passwordAgain },
  { path: '/dashboard/settings/delete', show: showDeleteAccount, act: actDeleteAccount, again: deleteAccountAgain },
  { path: '/dashboard/settings/export', act: actExport },
  { path: '/dashboard/settings/browsers/end', act: actEndBrowser },
  { path: '/dashboard/settings/browsers/end-others', act: actEndOtherBrowsers },
  { path: '/dashboard/applications', show: showApplications },
  { path: '/dashboard/applications/:id/disconnect', show: showDisconnect, act: actDisconnect },
];
