import { PATH } from '../authorization-server/metadata.js';
import { showAgents } from './agents/list.js';
import { moved, type PageRow } from './visit.js';

/** Every address of the dashboard. */
export const PAGE_ROWS: readonly PageRow[] = [
  { path: PATH.dashboard, show: async () => moved('/dashboard/agents') },
  { path: '/dashboard/agents', show: showAgents },
];
