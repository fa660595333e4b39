import type { Context } from '../../context/context.js';
import { UsageError } from '../../terminal/cli-error.js';
import { suggest } from '../../words/suggest.js';
import type { Words } from '../../words/words.js';

const SYSTEMS = ['github', 'gitlab', 'generic'] as const;
export type System = (typeof SYSTEMS)[number];

export interface CiOptions {
  readonly system: System;
}

export function parse(words: Words): CiOptions {
  const [typed = ''] = words.arguments;
  const system = SYSTEMS.find((one) => one === typed);
  if (system !== undefined) return { system };
  const near = suggest(typed, SYSTEMS)[0];
  throw new UsageError(`'${typed}' is none of ${SYSTEMS.join(', ')}.`, {
    next: ['asp', 'auth', 'ci', near ?? 'generic'],
  });
}

/** What a pipeline needs to act as one agent, without a browser and without a file: a confidential client. */
const SNIPPET: Readonly<Record<System, (baseUrl: string) => string>> = {
  github: (baseUrl) => `- name: Tell the agents
  env:
    ASP_PROFILE: ${baseUrl}
    ASP_CLIENT_ID: \${{ vars.ASP_CLIENT_ID }}
    ASP_CLIENT_SECRET: \${{ secrets.ASP_CLIENT_SECRET }}
  run: asp send @ops.bot "deploy ok" --end --once "deploy-$GITHUB_SHA" --json`,
  gitlab: (baseUrl) => `tell-the-agents:
  variables:
    ASP_PROFILE: ${baseUrl}
    # ASP_CLIENT_ID and ASP_CLIENT_SECRET (masked, protected): Settings, CI/CD, Variables
  script:
    - asp send @ops.bot "deploy ok" --end --once "deploy-$CI_COMMIT_SHA" --json`,
  generic: (baseUrl) => `export ASP_PROFILE=${baseUrl}
export ASP_CLIENT_ID=oac_…                       # from the service's dashboard
export ASP_CLIENT_SECRET_FILE=/run/secrets/asp   # private (0600), or a secret that is mounted
asp send @ops.bot "deploy ok" --end --once "deploy-$BUILD_ID" --json`,
};

export async function run(context: Context, { system }: CiOptions): Promise<void> {
  const { baseUrl, local } = await context.profile();
  const snippet = SNIPPET[system](baseUrl);
  await context.output.document({ system, base_url: baseUrl, snippet }, (safe) => safe.snippet);
  await context.output.note(
    local === undefined
      ? 'The client is created in the dashboard of the service, for one agent; its secret is shown once.'
      : 'A client of this local service: asp serve client add <handle>.',
  );
}
