import type { Command, CommandEntry, Program } from './command.js';

/** Commands that are also typed as one word. */
const ALIASES: Readonly<Record<string, string>> = {
  login: 'auth login',
  logout: 'auth logout',
  whoami: 'auth whoami',
  use: 'agent use',
  send: 'message send',
  tail: 'session tail',
};

/** `serveKeysList` from `serve keys list`: the name under which the file of a command exports it. */
type ExportName<Path extends string> = Path extends `${infer Word} ${infer Rest}`
  ? `${ExportName<Word>}${Capitalize<ExportName<Rest>>}`
  : Path extends `${infer Word}-${infer Rest}`
    ? `${Word}${Capitalize<ExportName<Rest>>}`
    : Path;

const exportName = (path: string): string => path.replace(/[ -](.)/g, (_, letter: string) => letter.toUpperCase());

/** The paths of the commands that a file exports. */
type PathIn<File> = {
  [Name in keyof File]: File[Name] extends Command<infer Path> ? (Name extends ExportName<Path> ? Path : never) : never;
}[keyof File];

/** Commands of one file, which is loaded when one of them is asked for. A path that the file does not define does not compile. */
function from<File extends object>(load: () => Promise<File>, ...paths: readonly PathIn<File>[]): CommandEntry[] {
  return paths.map((path) => ({
    path,
    aliases: Object.keys(ALIASES).filter((alias) => ALIASES[alias] === path),
    load: async () => ((await load()) as Readonly<Record<string, unknown>>)[exportName(path)] as Command,
  }));
}

const session = () => import('./commands/session/session.js');
const tail = () => import('./commands/tail/tail.js');
const serve = () => import('./commands/serve/serve.js');
const operate = () => import('./commands/serve/operate.js');

/** In the order of the reference. */
const ENTRIES: readonly CommandEntry[] = [
  ...from(
    () => import('./commands/auth/auth.js'),
    'auth login',
    'auth logout',
    'auth whoami',
    'auth status',
    'auth token',
    'auth refresh',
    'auth clients',
    'auth ci',
  ),
  ...from(
    () => import('./commands/agent.js'),
    'agent use',
    'agent show',
    'agent card',
    'agent list',
    'agent search',
    'agent create',
    'agent update',
    'agent remove',
  ),
  ...from(
    () => import('./commands/profile.js'),
    'profile list',
    'profile show',
    'profile add',
    'profile set',
    'profile remove',
    'profile use',
  ),
  ...from(() => import('./commands/send/send.js'), 'message send'),
  ...from(() => import('./commands/send/ask.js'), 'ask'),
  ...from(() => import('./commands/chat/chat.js'), 'chat'),
  ...from(() => import('./commands/send/reply.js'), 'reply'),
  ...from(() => import('./commands/inbox/inbox.js'), 'inbox', 'inbox read'),
  ...from(() => import('./commands/message/message.js'), 'message list', 'message search'),
  ...from(tail, 'session tail'),
  ...from(
    session,
    'session list',
    'session show',
    'session create',
    'session join',
    'session invite',
    'session leave',
    'session end',
    'session reopen',
  ),
  ...from(tail, 'session events'),
  ...from(session, 'session wait', 'session export'),
  ...from(() => import('./commands/run/run.js'), 'run'),
  ...from(() => import('./commands/mock/mock.js'), 'mock'),
  ...from(() => import('./commands/replay/replay.js'), 'replay'),
  ...from(
    () => import('./commands/attachment/attachment.js'),
    'attachment upload',
    'attachment download',
    'attachment show',
    'attachment list',
  ),
  ...from(
    () => import('./commands/allowlist.js'),
    'allowlist list',
    'allowlist add',
    'allowlist remove',
    'allowlist apply',
    'allowlist check',
    'knock list',
    'knock dismiss',
  ),
  ...from(() => import('./commands/webhook.js'), 'webhook show', 'webhook set', 'webhook test', 'webhook remove'),
  ...from(() => import('./commands/block.js'), 'block list', 'block add', 'block remove'),
  ...from(serve, 'serve'),
  ...from(operate, 'serve status', 'serve stop', 'serve open'),
  ...from(serve, 'serve logs'),
  ...from(() => import('./commands/serve/data.js'), 'serve reset', 'serve backup', 'serve restore', 'serve migrate'),
  ...from(serve, 'serve install', 'serve uninstall'),
  ...from(operate, 'serve keys list', 'serve keys rotate', 'serve retention'),
  ...from(() => import('./commands/serve/rehearse.js'), 'serve clock advance', 'serve trigger'),
  ...from(
    operate,
    'serve agent list',
    'serve agent add',
    'serve agent remove',
    'serve agent pause',
    'serve agent resume',
    'serve client list',
    'serve client add',
    'serve client revoke',
  ),
  ...from(
    () => import('./commands/serve/accounts.js'),
    'serve account list',
    'serve account show',
    'serve account suspend',
    'serve account resume',
    'serve account tier',
    'serve account operator',
    'serve account export',
    'serve account remove',
    'serve account reset-password',
    'serve invite create',
    'serve invite list',
    'serve invite revoke',
  ),
  ...from(() => import('./commands/demo/demo.js'), 'demo'),
  ...from(() => import('./commands/open.js'), 'open'),
  ...from(() => import('./commands/status.js'), 'status'),
  ...from(() => import('./commands/doctor/doctor.js'), 'doctor'),
  ...from(
    () => import('./commands/config.js'),
    'config list',
    'config get',
    'config set',
    'config unset',
    'config edit',
    'config path',
  ),
  ...from(() => import('./commands/alias.js'), 'alias list', 'alias set', 'alias remove'),
  ...from(() => import('./commands/connect/connect.js'), 'connect', 'disconnect', 'skill show', 'skill install'),
  ...from(() => import('./commands/completion/completion.js'), 'completion'),
  ...from(() => import('./commands/mcp/mcp.js'), 'mcp'),
  ...from(() => import('./commands/api.js'), 'api'),
  ...from(() => import('./commands/help/help.js'), 'schema', 'help', 'version', 'commands', 'explain'),
];

/** The words of the program. No command is loaded before it is asked for. */
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
    { noun: 'webhook', plural: 'webhooks', summary: 'have the service post the events of an agent to a URL' },
    { noun: 'auth', summary: 'sign in and out, manage tokens and clients' },
    { noun: 'profile', plural: 'profiles', summary: 'manage the services you use' },
    { noun: 'skill', summary: 'teach a coding agent to use asp' },
    { noun: 'config', summary: 'change settings of this machine' },
    { noun: 'alias', plural: 'aliases', summary: 'create shortcuts for commands' },
    { noun: 'serve', summary: 'run a service on this machine' },
  ],
  entries: ENTRIES,
};
