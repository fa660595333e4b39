import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

import { useService } from '../conformance/service.js';
import { startHttpRelay } from '../support/http-relay.js';
import { tokenFor } from '../support/mcp-tools.js';

const PRELOAD = new URL('../support/programs/mcp-conformance.mjs', import.meta.url).href;
const SUITE = fileURLToPath(
  new URL('../../node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url),
);
const BOTH = ['2025-11-25', '2026-07-28'] as const;
type Revision = (typeof BOTH)[number];
/** The failing checks of each scenario. */
type Findings = Record<string, readonly string[]>;

/** Every scenario in which all of the suite's checks pass. */
const PASSING: Readonly<Record<Revision, readonly string[]>> = {
  '2025-11-25': [
    'dns-rebinding-protection',
    'ping',
    'resources-list',
    'server-initialize',
    'server-session-lifecycle',
    'tools-list',
  ],
  '2026-07-28': [
    'dns-rebinding-protection',
    'http-header-validation',
    'input-required-result-unsupported-methods',
    'input-required-result-validate-input',
    'resources-list',
    'sep-2164-resource-not-found',
    'server-sse-multiple-streams',
    'tasks-status-notifications',
    'tools-list',
  ],
};

/** Every check that the service does not pass, with the reason: it cannot, should not, or does not yet. */
const EXCEPTIONS: readonly { reason: string; revisions: readonly Revision[]; failing: Findings }[] = [
  {
    reason: 'The service has no prompts: what a model should do is said by its person or its host.',
    revisions: BOTH,
    failing: {
      'prompts-get-embedded-resource': ['prompts-get-embedded-resource'],
      'prompts-get-simple': ['prompts-get-simple'],
      'prompts-get-with-args': ['prompts-get-with-args'],
      'prompts-get-with-image': ['prompts-get-with-image'],
      'prompts-list': ['prompts-list'],
    },
  },
  {
    reason: 'The service has no prompts: what a model should do is said by its person or its host.',
    revisions: ['2026-07-28'],
    failing: {
      'input-required-result-non-tool-request': ['sep-2322-non-tool-incomplete'],
    },
  },
  {
    reason: 'These read the resources of the reference server, by their URIs.',
    revisions: BOTH,
    failing: {
      'resources-read-binary': ['resources-read-binary'],
      'resources-read-text': ['resources-read-text'],
      'resources-templates-read': ['resources-templates-read'],
    },
  },
  {
    reason: 'A subscription of this revision would have to outlive its request.',
    revisions: ['2025-11-25'],
    failing: {
      'resources-subscribe': ['resources-subscribe'],
      'resources-unsubscribe': ['resources-unsubscribe'],
    },
  },
  {
    reason: 'The list of prompts has no caching hint, because there is no such list.',
    revisions: ['2026-07-28'],
    failing: {
      caching: ['sep-2549-prompts-list-caching-hints'],
    },
  },
  {
    reason: 'No tool runs as a task: the SDK has none of this revision, and a session already is a handle.',
    revisions: ['2026-07-28'],
    failing: {
      'tasks-capability-negotiation': [
        'tasks-extension-advertised',
        'sep-2663-tasks-methods-non-declaring',
        'sep-2663-server-rejects-undeclared-client',
        'tasks-per-request-meta-opt-in',
      ],
      'tasks-dispatch-and-envelope': [
        'tasks-server-directed-creation-no-hint',
        'sep-2663-legacy-task-param-ignored',
        'tasks-immediate-result-shortcut',
        'tasks-result-type-complete-on-non-task-responses',
        'sep-2663-durable-create-strong-consistency',
        'sep-2663-tasks-get-invalid-task-id-32602',
      ],
      'tasks-lifecycle': [
        'tasks-sync-tool-call',
        'sep-2663-result-type-task-on-create',
        'sep-2663-tasks-get-status-working',
        'sep-2663-tasks-get-status-completed',
        'sep-2663-tool-error-uses-completed-status',
        'sep-2663-tasks-get-status-failed',
        'sep-2663-cancel-ack-empty-result',
        'tasks-cancel-terminal-idempotent-ack',
      ],
      'tasks-mrtr-composition': ['sep-2663-mrtr-synchronous-before-task-creation'],
      'tasks-mrtr-input': [
        'sep-2663-tasks-get-status-input-required',
        'tasks-mrtr-tasks-update-resumes',
        'tasks-mrtr-partial-fulfillment',
      ],
      'tasks-request-headers': [
        'tasks-headers-tolerate-mcp-method-on-tools-call',
        'sep-2663-routing-headers-accepted-on-tasks-get',
        'sep-2663-server-rejects-mismatched-mcp-name-on-tasks-get',
      ],
      'tasks-request-state-removal': ['tasks-request-state-removal-setup'],
      'tasks-required-task-error': ['sep-2663-server-returns-missing-capability-when-required'],
      'tasks-wire-fields': [
        'tasks-wire-field-renames',
        'tasks-no-early-ttl-expiry',
        'tasks-no-related-task-meta-on-inlined-result',
      ],
    },
  },
  {
    reason: 'No argument has completions.',
    revisions: BOTH,
    failing: {
      'completion-complete': ['completion-complete'],
    },
  },
  {
    reason: 'Logs of the service are for its operator.',
    revisions: ['2025-11-25'],
    failing: {
      'logging-set-level': ['logging-set-level'],
      'tools-call-with-logging': ['tools-call-with-logging'],
    },
  },
  {
    reason: 'No session and no stream outlives a request, so there is nothing to resume.',
    revisions: ['2025-11-25'],
    failing: {
      'server-sse-multiple-streams': ['server-sse-multiple-streams-session'],
      'server-sse-polling': ['server-sse-polling-session', 'server-sse-priming-event', 'server-sse-retry-field'],
    },
  },
  {
    reason: 'These need the diagnostic tools of the reference server.',
    revisions: ['2026-07-28'],
    failing: {
      'server-stateless': [
        'sep-2575-server-rejects-undeclared-capability',
        'sep-2575-missing-capability-http-400',
        'sep-2575-http-server-no-independent-requests-on-stream',
        'sep-2575-server-no-log-without-loglevel',
      ],
    },
  },
  {
    reason: 'These call tools of the reference server, which a real service does not have.',
    revisions: BOTH,
    failing: {
      'json-schema-2020-12': ['json-schema-2020-12-tool-found'],
      'tools-call-audio': ['tools-call-audio'],
      'tools-call-embedded-resource': ['tools-call-embedded-resource'],
      'tools-call-error': ['tools-call-error'],
      'tools-call-image': ['tools-call-image'],
      'tools-call-mixed-content': ['tools-call-mixed-content'],
      'tools-call-simple-text': ['tools-call-simple-text'],
      'tools-call-with-progress': ['tools-call-with-progress'],
    },
  },
  {
    reason: 'These call tools of the reference server, which a real service does not have.',
    revisions: ['2025-11-25'],
    failing: {
      'elicitation-sep1034-defaults': ['elicitation-sep1034-general'],
      'elicitation-sep1330-enums': ['elicitation-sep1330-general'],
      'tools-call-elicitation': ['tools-call-elicitation'],
      'tools-call-sampling': ['tools-call-sampling'],
    },
  },
  {
    reason: 'These call tools of the reference server, which a real service does not have.',
    revisions: ['2026-07-28'],
    failing: {
      'http-custom-header-server-validation': [
        'sep-2243-server-no-xmcp-tool',
        'sep-2243-server-decode-base64',
        'sep-2243-server-validate-param-match',
        'sep-2243-server-reject-invalid-param-chars',
        'sep-2243-server-reject-param-mismatch',
      ],
      'input-required-result-basic-elicitation': ['sep-2322-elicitation-incomplete'],
      'input-required-result-basic-list-roots': ['sep-2322-list-roots-incomplete'],
      'input-required-result-basic-sampling': ['sep-2322-sampling-incomplete'],
      'input-required-result-capability-check': ['sep-2322-respect-client-capabilities'],
      'input-required-result-ignore-extra-params': ['sep-2322-ignore-unexpected-params'],
      'input-required-result-missing-input-response': ['sep-2322-missing-response-rerequests'],
      'input-required-result-multi-round': ['sep-2322-multi-round-r1'],
      'input-required-result-multiple-input-requests': ['sep-2322-multiple-inputs-incomplete'],
      'input-required-result-request-state': ['sep-2322-request-state-incomplete'],
      'input-required-result-result-type': ['sep-2322-result-type-included'],
      'input-required-result-tampered-state': ['sep-2322-reject-tampered-state'],
    },
  },
];

function expectedAt(revision: Revision): Findings {
  const known = EXCEPTIONS.filter(({ revisions }) => revisions.includes(revision)).map(({ failing }) => failing);
  return Object.assign(Object.fromEntries(PASSING[revision].map((name) => [name, []])), ...known);
}

async function runSuite(words: readonly string[]): Promise<Findings> {
  const folder = await mkdtemp(join(tmpdir(), 'asp-mcp-conformance-'));
  try {
    // The suite exits with 1 if any check fails. Its files say which.
    await new Promise<void>((resolve) => {
      execFile(process.execPath, ['--import', PRELOAD, SUITE, ...words, '-o', folder], { timeout: 100_000 }, () =>
        resolve(),
      );
    });
    const findings: Findings = {};
    for (const entry of await readdir(folder)) {
      const [, name = entry] = /^(?:authorization-)?server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/.exec(entry) ?? [];
      const checks: { id: string; status: string }[] = JSON.parse(
        await readFile(join(folder, entry, 'checks.json'), 'utf8'),
      );
      const faults = checks.filter(({ status }) => status === 'FAILURE' || status === 'WARNING');
      findings[name] = [...new Set(faults.map(({ id }) => id))];
    }
    return findings;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

describe('The conformance suite of the Model Context Protocol', () => {
  const service = useService();

  it.each(BOTH)('finds only the known problems with the tools (%s)', async (revision) => {
    const alice = await service.actor('alice');
    const url = new URL('/mcp', service.place.issuer);
    const token = await tokenFor(service.place, alice, url.href);
    const relay = await startHttpRelay();
    relay.targetPort = Number(url.port);
    // The suite sends no token and uses the relay's address instead of the service's.
    const own = new RegExp(`(?<=^|//)(localhost|127\\.0\\.0\\.1):${relay.port}$`);
    relay.onRequest = async ({ headers, forward }) => {
      headers.authorization = `Bearer ${token}`;
      headers.host = headers.host?.replace(own, url.host);
      if (headers.origin !== undefined) headers.origin = headers.origin.replace(own, url.host);
      await (await forward())();
    };
    try {
      const at = `http://127.0.0.1:${relay.port}/mcp`;
      expect(await runSuite(['server', '--url', at, '--requirements', revision])).toEqual(expectedAt(revision));
    } finally {
      await relay.stop();
    }
  });

  it('finds no problem with the metadata of the authorization server', async () => {
    const scenario = 'authorization-server-metadata-endpoint';
    const findings = await runSuite(['authorization', '--url', service.place.issuer, '--scenario', scenario]);
    expect(findings).toEqual({ [scenario]: [] });
  });
});
