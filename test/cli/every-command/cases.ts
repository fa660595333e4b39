import { ATTACHMENT_ID, NEW_AGENT, PEER, SESSION_ID } from '../../support/canned-replies.js';

/** The part of the service that a command calls, which decides what a failure means for it. */
type Asks = 'the interface' | 'the sign-in' | 'the operator' | 'nobody';

/** The expected exit code where it differs from the table of exit codes. */
export interface Cell {
  readonly exit: number;
  readonly code?: string;
}

/** The columns of the matrix: how the service responds. */
export const COLUMNS = ['ok', '400', '401', '403', '404', '409', '429', '500', 'no network'] as const;
export type Column = (typeof COLUMNS)[number];

/** One way to run a command. */
export interface Case {
  /** The command line without `asp`. */
  readonly line: string;
  readonly asks: Asks;
  readonly stdin?: string;
  /** Uses a stored login instead of a token from the environment. */
  readonly isSignedIn?: boolean;
  /** The document is this object of `asp schema` instead of the command's own. */
  readonly object?: string;
  /** Prints text without a schema, such as an answer of the service. */
  readonly isFree?: boolean;
  /** Runs until stopped, so only its failures are tested. */
  readonly isEndless?: boolean;
  /** The service refuses requests for its metadata too. */
  readonly isEverythingRefused?: boolean;
  readonly cells?: Partial<Record<Column, Cell>>;
  /** Why its cells differ from the table. */
  readonly because?: string;
}

const FAILURES: readonly Column[] = ['400', '401', '403', '404', '409', '429', '500', 'no network'];
const all = (cell: Cell, columns: readonly Column[] = FAILURES): Partial<Record<Column, Cell>> =>
  Object.fromEntries(columns.map((column) => [column, cell]));

const api = (line: string, more: Partial<Case> = {}): Case => ({ line, asks: 'the interface', ...more });
const operator = (line: string, more: Partial<Case> = {}): Case => ({
  line,
  asks: 'the operator',
  cells: { 'no network': { exit: 9, code: 'ASP_LOCAL_NOT_RUNNING' } },
  because: 'a file left behind by a killed service is not a service',
  ...more,
});
const local = (line: string, more: Partial<Case> = {}): Case => ({ line, asks: 'nobody', ...more });

const NOT_OAUTH: Partial<Record<Column, Cell>> = {
  '404': { exit: 9, code: 'ASP_BAD_ANSWER' },
  '409': { exit: 9, code: 'ASP_BAD_ANSWER' },
};
const NOT_OAUTH_REASON = 'no authorization server answers so: what is there is something else';
const DRY: Partial<Case> = { asks: 'nobody', object: 'dry-run' };

/** A service that answers 404 to everything does not have the additions to the specification. */
const ADDITION: Partial<Case> = {
  cells: { '404': { exit: 5, code: 'ASP_NOT_OFFERED' } },
  because: 'it is an addition that the service does not have',
};

/** Requests only the metadata that says where to sign in, which is never refused. */
const METADATA_ONLY: Partial<Case> = {
  cells: all({ exit: 0 }, ['400', '401', '403', '404', '409', '429', '500']),
  because: 'it asks for the metadata of the service and nothing else',
};

/** The ways to run every command of the table. A command without an entry here fails the tests. */
export const CASES: Readonly<Record<string, readonly Case[]>> = {
  'auth login': [
    {
      line: 'login --browser $BROWSER --store file --timeout 20s',
      asks: 'the sign-in',
      cells: NOT_OAUTH,
      because: NOT_OAUTH_REASON,
    },
    { line: 'login --start', asks: 'the sign-in', object: 'login-start', cells: NOT_OAUTH, because: NOT_OAUTH_REASON },
  ],
  'auth logout': [
    {
      line: 'logout',
      asks: 'the sign-in',
      isSignedIn: true,
      cells: all({ exit: 0 }),
      because: 'it is deleted here in any case; the document says that the service was not told',
    },
  ],
  'auth whoami': [
    api('whoami'),
    api('whoami --explain', {
      isSignedIn: true,
      cells: { '401': { exit: 4, code: 'ASP_LOGIN_ENDED' } },
      because: 'a login is renewed when its token is refused, and then that is refused',
    }),
    local('whoami --offline', { isSignedIn: true }),
  ],
  'auth status': [local('auth status', { isSignedIn: true })],
  'auth token': [
    {
      line: 'auth token --min-ttl 24h',
      asks: 'the sign-in',
      isSignedIn: true,
      cells: { '401': { exit: 4, code: 'ASP_LOGIN_ENDED' }, ...NOT_OAUTH },
      because: NOT_OAUTH_REASON,
    },
    local('auth token'),
  ],
  'auth refresh': [
    {
      line: 'auth refresh',
      asks: 'the sign-in',
      isSignedIn: true,
      cells: { '401': { exit: 4, code: 'ASP_LOGIN_ENDED' }, ...NOT_OAUTH },
      because: NOT_OAUTH_REASON,
    },
  ],
  'auth clients': [local('auth clients', { isSignedIn: true })],
  'auth ci': [local('auth ci github')],
  'agent use': [
    local(`use ${PEER} -p here`, { isSignedIn: true }),
    local(`use ${PEER} --here -p here`, { isSignedIn: true }),
  ],
  'agent show': [api('agent show'), api(`agent show ${PEER}`)],
  'agent card': [api(`agent card ${PEER}`)],
  'agent list': [api('agent list --all')],
  'agent search': [api('agent search alice', ADDITION)],
  'agent create': [api(`agent create ${NEW_AGENT} --description x`), local(`agent create ${NEW_AGENT} --dry-run`, DRY)],
  'agent update': [api('agent update --description x', ADDITION), api('agent update me.bot --pause')],
  'agent remove': [api('agent remove me.bot --yes')],
  'profile list': [local('profile list')],
  'profile show': [local('profile show')],
  'profile add': [local('profile add work --base-url https://api.example/v1')],
  'profile set': [local('profile set here --web-url https://web.example')],
  'profile remove': [local('profile remove here')],
  'profile use': [local('profile use here')],
  'message send': [
    api(`send ${PEER} hello`),
    api(`send ${PEER},@bob.bot hello --end --once x --as me.bot`),
    api(`send ${SESSION_ID} hello`),
    api(`send ${SESSION_ID} hello --wait-for taken`, ADDITION),
    api(`send ${SESSION_ID} --lines`, { stdin: 'hello\n' }),
    api(`send ${SESSION_ID} --file $HOME/note.txt`),
    local(`send ${PEER} hello --dry-run`, DRY),
  ],
  ask: [api(`ask ${PEER} Deploy?`), local(`ask ${PEER} Deploy? --choices yes,no --dry-run`, DRY)],
  reply: [api(`reply ${SESSION_ID} hello`)],
  inbox: [api('inbox'), api('inbox --all --unread')],
  'inbox read': [api(`inbox read ${SESSION_ID}`)],
  run: [api('run --exec cat', { isEndless: true })],
  mock: [api('mock --script $HOME/mock.json', { isEndless: true })],
  replay: [api(`replay ${SESSION_ID} --exec true`), local('replay $HOME/recording.jsonl --as me.bot --exec true')],
  'message list': [api(`message list ${SESSION_ID}`)],
  'message search': [api('message search hello', ADDITION)],
  'session tail': [api(`tail ${SESSION_ID} -n 9 -c 3`), api(`tail ${SESSION_ID} --no-follow`)],
  'session list': [
    api('session list'),
    api('session list --all'),
    api('session list --account', { object: 'account-session' }),
  ],
  'session show': [api(`session show ${SESSION_ID}`), api(`session show ${SESSION_ID} --delivery`)],
  'session create': [api(`session create ${PEER} --topic x`), local(`session create ${PEER} --dry-run`, DRY)],
  'session join': [api(`session join ${SESSION_ID}`)],
  'session invite': [api(`session invite ${SESSION_ID} ${PEER}`)],
  'session leave': [api(`session leave ${SESSION_ID}`)],
  'session end': [api(`session end ${SESSION_ID}`)],
  'session reopen': [api(`session reopen ${SESSION_ID} -m hello`)],
  'session events': [api(`session events ${SESSION_ID} --after 0`)],
  'session wait': [
    api(`session wait ${SESSION_ID} --for joined`),
    api(`session wait ${SESSION_ID} --for message --after 0`),
  ],
  'session export': [
    api(`session export ${SESSION_ID} -o out.jsonl`),
    api(`session export ${SESSION_ID} -o out --with-attachments --format md`),
  ],
  'attachment upload': [api('attachment upload $HOME/note.txt')],
  'attachment download': [api(`attachment download ${ATTACHMENT_ID}`, ADDITION)],
  'attachment show': [api(`attachment show ${ATTACHMENT_ID}`, ADDITION)],
  'attachment list': [api(`attachment list ${SESSION_ID}`)],
  'allowlist list': [api('allowlist list')],
  'allowlist add': [api(`allowlist add ${PEER}`)],
  'allowlist remove': [api(`allowlist remove ${PEER}`)],
  'allowlist apply': [api('allowlist apply - --prune', { stdin: '@new.bot\n' })],
  'allowlist check': [api(`allowlist check ${PEER}`)],
  'knock list': [api('knock list')],
  'knock dismiss': [api(`knock dismiss ${PEER}`)],
  'webhook show': [api('webhook show me.bot')],
  'webhook set': [api('webhook set https://hooks.example/asp me.bot')],
  'webhook test': [api('webhook test me.bot')],
  'webhook remove': [api('webhook remove me.bot')],
  'block list': [api('block list')],
  'block add': [api(`block add ${PEER}`)],
  'block remove': [api(`block remove ${PEER}`)],
  serve: [local('serve --print-config --data memory', { object: 'serve-settings' })],
  'serve status': [operator('serve status')],
  'serve open': [operator('serve open --no-browser')],
  'serve stop': [operator('serve stop')],
  'serve logs': [local('serve logs -n 1')],
  'serve reset': [local('serve reset --data $HOME/none --yes')],
  'serve backup': [local('serve backup saved.tar --data $SHARED/data')],
  'serve restore': [local('serve restore $SHARED/backup.tar --data restored')],
  'serve migrate': [local('serve migrate --plan --data $SHARED/data')],
  'serve install': [local('serve install --dry-run')],
  'serve uninstall': [local('serve uninstall --dry-run')],
  'serve retention': [operator('serve retention')],
  'serve keys list': [operator('serve keys list')],
  'serve keys rotate': [operator('serve keys rotate')],
  'serve clock advance': [operator('serve clock advance 1h')],
  'serve trigger': [operator(`serve trigger drop --to ${PEER}`)],
  'serve agent list': [operator('serve agent list')],
  'serve agent add': [operator(`serve agent add ${PEER}`)],
  'serve agent remove': [operator(`serve agent remove ${PEER}`)],
  'serve agent pause': [operator(`serve agent pause ${PEER}`)],
  'serve agent resume': [operator(`serve agent resume ${PEER}`)],
  'serve account list': [operator('serve account list')],
  'serve account show': [operator('serve account show alice')],
  'serve account suspend': [operator('serve account suspend alice')],
  'serve account resume': [operator('serve account resume alice')],
  'serve account export': [operator('serve account export alice saved.json')],
  'serve account tier': [operator('serve account tier alice trusted')],
  'serve account operator': [operator('serve account operator alice yes')],
  'serve account remove': [
    operator('serve account remove alice --yes'),
    operator('serve account remove alice --erase --yes'),
  ],
  'serve account reset-password': [operator('serve account reset-password alice')],
  'serve invite create': [operator('serve invite create')],
  'serve invite list': [operator('serve invite list')],
  'serve invite revoke': [operator('serve invite revoke lnk_1')],
  'serve client add': [operator(`serve client add ${PEER}`)],
  'serve client list': [operator('serve client list')],
  'serve client revoke': [operator('serve client revoke oac_1 --yes')],
  open: [api('open --no-browser', METADATA_ONLY), api(`open ${SESSION_ID} --no-browser`, METADATA_ONLY)],
  status: [
    api('status', {
      cells: all({ exit: 0 }),
      because: 'it is safe in prompts and hooks: what it finds is data, not failure',
    }),
  ],
  doctor: [
    api('doctor', {
      isSignedIn: true,
      isEverythingRefused: true,
      cells: all({ exit: 1, code: 'ASP_UNHEALTHY' }),
      because: 'what it finds is its data; that there is something is exit 1',
    }),
  ],
  'config list': [local('config list --origin')],
  'config get': [local('config get profiles.here.base_url')],
  'config set': [local('config set default_profile here')],
  'config unset': [local('config unset profiles.here.agent')],
  'config edit': [local('config edit')],
  'config path': [local('config path')],
  'alias list': [local('alias list')],
  'alias set': [local('alias set ls session list')],
  'alias remove': [local('alias remove new')],
  connect: [local('connect codex --as me.bot'), local('connect --list', { isFree: true })],
  disconnect: [local('disconnect codex')],
  'skill show': [local('skill show')],
  'skill install': [local('skill install codex')],
  completion: [local('completion bash')],
  api: [
    api('api agents/me', { isFree: true }),
    api(`api sessions/${SESSION_ID}/messages --field content=x`, { isFree: true }),
  ],
  schema: [local('schema'), local('schema session list', { isFree: true })],
  help: [local('help'), local('help auth'), local('help session list')],
  version: [local('version')],
  commands: [local('commands')],
  explain: [local('explain NOT_FOUND')],
};

/** The cases that end on their own. */
export const ENDING = Object.values(CASES)
  .flat()
  .filter(({ isEndless }) => isEndless !== true);

/** The commands that are not in the matrix, and the tests that cover them. */
export const ELSEWHERE: Readonly<Record<string, string>> = {
  chat: 'it is a conversation on its streams: test/acceptance/chat.test.ts',
  mcp: 'it speaks its own protocol on its streams: test/acceptance/mcp.test.ts',
  demo: 'it is the program run over and over against its own service: test/cli/demo/demo.test.ts',
};
