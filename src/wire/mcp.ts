import type { Scope } from './scope.js';

/** Where `asp serve` offers the Model Context Protocol, below the service root (wire: Tools for models). */
export const MCP_PATH = '/mcp';

/** What its tools need. A token with fewer scopes has fewer tools. */
export const MCP_SCOPES = ['agents:read', 'sessions:read', 'sessions:write'] as const satisfies readonly Scope[];

/** How long a call may wait: proxies and clients give up on calls without an answer after a minute. */
export const MCP_WAIT_MAX_S = 50;
