import { randomBytes } from 'node:crypto';
import { join } from 'node:path';

import { createIds } from '../../src/kit/ids.js';
import { systemRandom } from '../../src/kit/random.js';
import { createAccount } from '../../src/service/agents/accounts.js';
import { createAgentRecord } from '../../src/service/agents/agents.js';
import { openAttachmentFiles } from '../../src/service/attachments/files.js';
import { type AgentActor, DEFAULT_ACCOUNT_POLICY, type ServiceContext } from '../../src/service/core/context.js';
import type { Database, SharedDatabase } from '../../src/service/core/database.js';
import { unmetered } from '../../src/service/core/meter.js';
import { unlimited } from '../../src/service/core/rate-limits.js';
import { createRefusals } from '../../src/service/core/refusals.js';
import { createHeldBytes } from '../../src/service/core/semaphore.js';
import { createInboxes } from '../../src/service/messaging/inboxes.js';
import { createLocalBus } from '../../src/service/messaging/shared-bus.js';
import { openPostgres } from '../../src/service/store/postgres.js';
import { openSqlite } from '../../src/service/store/sqlite.js';
import { UNREAD_MAX_BYTES } from '../../src/wire/limit.js';

/** The domain functions of a service on its own database, without HTTP. */
export interface Place {
  readonly context: ServiceContext;
  /** Takes part in every session. */
  readonly alice: AgentActor;
  /** Takes part in the same number of sessions no matter how many exist. */
  readonly carol: AgentActor;
  readonly others: readonly AgentActor[];
  close(): Promise<void>;
}

const OTHERS = 50;

export async function openPlace(name: string, folder: string, databaseUrl: string | undefined): Promise<Place> {
  const fail = (error: unknown): never => {
    throw error;
  };
  const database = await openDatabase(name, folder, databaseUrl, fail);
  const files = await openAttachmentFiles(undefined);
  let now = Date.now();
  // The clock never returns the same time twice, so changes are ordered like the calls.
  const clock = { now: () => ++now, monotonic: () => performance.now(), schedule: () => () => {} };
  const bus = createLocalBus(fail);
  const log = { info: () => {}, warn: () => {}, error: (_event: string, error: unknown) => fail(error) };
  const inboxes = createInboxes({ clock, database, bus, log });
  inboxes.start();
  const context: ServiceContext = {
    clock,
    ids: createIds(clock, systemRandom),
    random: systemRandom,
    database,
    files,
    bus,
    inboxes,
    limits: unlimited,
    refusals: createRefusals(clock),
    unread: createHeldBytes(UNREAD_MAX_BYTES),
    settings: {
      addresses: {
        baseUrl: 'http://h/v1',
        authUrl: 'http://h',
        webUrl: 'http://h',
        wsUrl: 'ws://h/connect',
        mcpUrl: 'http://h/mcp',
      },
      trust: 'recipient',
      areLimitsOn: false,
      participantsMax: 1_000,
      accountPolicy: DEFAULT_ACCOUNT_POLICY,
      presenceGraceMs: undefined,
      isBehindProxy: false,

      isAddressShared: false,
    },
    meter: unmetered,
    log,
  };
  const addAgent = (username: string): Promise<AgentActor> =>
    database.write(async (transaction) => {
      const person = { username, displayName: username, passwordHash: null, tier: 'trusted', isLocal: false } as const;
      const account = await createAccount(context, transaction, person);
      const agent = { local_name: 'main', display_name: username, inbound_policy: 'open' } as const;
      const { id, handle } = await createAgentRecord(context, transaction, account, agent);
      return { kind: 'agent', agentId: id, handle, accountId: account.id, scopes: [] };
    });
  const [alice, carol] = [await addAgent('alice'), await addAgent('carol')];
  const others: AgentActor[] = [];
  for (let index = 0; index < OTHERS; index += 1) others.push(await addAgent(`other${index}`));
  return {
    context,
    alice,
    carol,
    others,
    async close() {
      await dropSchema(name, database);
      await database.close();
      await files.close();
    },
  };
}

const SCHEMA = `asp_growth_${process.pid}_${randomBytes(4).toString('hex')}`;

function openDatabase(
  name: string,
  folder: string,
  databaseUrl: string | undefined,
  onFault: (error: unknown) => void,
): Promise<Database> {
  if (databaseUrl === undefined) return openSqlite({ directory: join(folder, name) }, { onFault });
  const url = new URL(databaseUrl);
  const schema = `${SCHEMA}_${name}`;
  url.searchParams.set('search_path', schema);
  // Identifies its server processes.
  url.searchParams.set('application_name', schema);
  return openPostgres(url.href, { onFault });
}

async function dropSchema(name: string, database: Database): Promise<void> {
  if ('aside' in database) await (database as SharedDatabase).aside.run(`DROP SCHEMA ${SCHEMA}_${name} CASCADE`);
}
