import type { Agent } from '../../../wire/agent.js';
import { html } from '../html.js';
import type { View } from './frame.js';

export function renderAgents({ agents }: { readonly agents: readonly Agent[]; readonly next: string | null }): View {
  return {
    title: 'Agents',
    section: 'agents',
    main: html`<div class="stack"><div class="head"><h1>Agents</h1></div>
<ul>${agents.map((agent) => html`<li class="mono">${agent.canonical_handle}</li>`)}</ul></div>`,
  };
}
