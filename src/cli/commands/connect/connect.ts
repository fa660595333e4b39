import { didYouMean } from '../../../kit/suggest.js';
import { type Args, command, type Option } from '../../command.js';
import type { Context } from '../../context/context.js';
import { CliError, usageError } from '../../errors.js';
import type { CodingAgent, Launch } from './coding-agents.js';
import type { FileStep } from './written-files.js';

const AGENT = 'claude-code, codex, opencode, gemini, copilot, qwen, kimi or cursor';
const DRY_RUN = { flags: '--dry-run', about: 'print what would change, without changing anything' } as const;
const FORCE = {
  flags: '--force',
  about: 'replace files that already exist, and what was edited since asp wrote it',
} as const;

const CONNECT_OPTIONS = [
  { flags: '--list', about: 'list the coding agents, what wakes each, and the tested version' },
  DRY_RUN,
  FORCE,
] as const satisfies readonly Option[];

export const connect = command({
  path: 'connect',
  summary: 'connect a coding agent: tools, a skill, and a way to wake it',
  details: [
    'Adds asp mcp to the settings of a coding agent on this machine, for one of your agents (--as), and a skill that',
    'teaches it to use asp safely (not for Cursor, whose folder for skills asp does not know). If the coding agent',
    'supports it, a monitor that runs asp tail --for-agent wakes it when a message arrives. The rest of its settings',
    'stays the same, byte for byte. asp disconnect removes everything that asp connect wrote.',
    '',
    'Qwen Code is woken by its tools (asp mcp --wake). The others read messages only while they are working. To have each',
    'message start a turn, run them with asp run --acp.',
  ].join('\n'),
  arguments: [{ usage: '[program]', about: AGENT }],
  options: CONNECT_OPTIONS,
  examples: [
    { line: 'asp connect --list', about: 'the coding agents asp can connect, and what wakes each' },
    { line: 'asp connect claude-code --dry-run', about: 'preview every file' },
    { line: 'asp connect claude-code --as alice.bot', about: 'Claude Code reads and answers as @alice.bot' },
  ],
  effect: 'local',
  mixesShapesWith: ['list'],
  stdout: 'the files with their changes; with --list: agent, connected, wake, measured with, how',
  parse(args: Args<(typeof CONNECT_OPTIONS)[number], { usage: '[program]'; about: string }>) {
    const agent = args.argument('program');
    args.refuseBoth('list', 'dry-run');
    if (agent === undefined && !args.flag('list'))
      throw usageError('Which coding agent?', {
        why: '--list shows which ones asp can connect.',
        next: ['asp', 'connect', '--list'],
      });
    if (agent !== undefined && args.flag('list')) throw usageError('--list takes no coding agent.');
    return { agent, isDry: args.flag('dry-run'), isForced: args.flag('force') };
  },
  async run(context, { agent, isDry, isForced }) {
    if (agent === undefined) return listAgents(context);
    const [{ filesFor }, { findFolders }, { writeFiles }] = await Promise.all([
      import('./coding-agents.js'),
      import('../../profile/paths.js'),
      import('./written-files.js'),
    ]);
    const found = await findAgent(agent);
    const launch = await planLaunch(context);
    const steps = await writeFiles(
      context,
      { agent: found.id, isDry, isForced },
      filesFor(found, findFolders(context), launch),
    );
    await printSteps(context, found.id, isDry, steps);
    if (isDry) return;
    const isChanged = steps.some(({ action }) => action !== 'keep');
    const already = `${found.name} was already connected as ${launch.handle}; nothing was changed.`;
    const connected = `${found.name} is connected as ${launch.handle}. Restart it to load the changes.`;
    await context.output.note(isChanged ? connected : already);
    if (found.needs !== undefined) await context.output.note(found.needs);
    if (found.wake === 'run') await context.output.note(`To wake it with messages: ${found.wakesBy}.`);
  },
});

export const disconnect = command({
  path: 'disconnect',
  summary: 'remove what asp connect and asp skill install wrote for a coding agent',
  details: 'Files and entries that were edited since then stay, and a note lists them.',
  arguments: [{ usage: '<program>', about: AGENT }],
  options: [DRY_RUN],
  examples: [
    { line: 'asp disconnect claude-code', about: 'restores its settings' },
    { line: 'asp disconnect codex --dry-run', about: 'what would be removed' },
  ],
  effect: 'local',
  stdout: 'the files with their changes',
  parse: (args) => ({ agent: args.argument('program'), isDry: args.flag('dry-run') }),
  async run(context, { agent, isDry }) {
    const found = await findAgent(agent);
    const { removeFiles } = await import('./written-files.js');
    const steps = await removeFiles(context, { agent: found.id, isDry });
    await printSteps(context, found.id, isDry, steps);
    if (steps.length === 0) await context.output.note(`${found.name} is not connected.`);
    else if (!isDry && steps.every(({ action }) => action !== 'keep'))
      await context.output.note(`${found.name} is no longer connected. Restart it to load the changes.`);
  },
});

const INSTALL_OPTIONS = [
  { flags: '--project', about: 'install it in this folder, for everyone who works here' },
  DRY_RUN,
  FORCE,
] as const satisfies readonly Option[];

export const skillShow = command({
  path: 'skill show',
  summary: 'print the skill that teaches a coding agent to use asp',
  details: 'In the format of Agent Skills: YAML front matter with name and description, then Markdown.',
  examples: [
    { line: 'asp skill show', about: 'to read, or to write to a file' },
    { line: 'asp skill show --json', about: 'its name and its text' },
  ],
  effect: 'none',
  stdout: 'the text of SKILL.md',
  async run(context) {
    const { SKILL_NAME, SKILL_TEXT } = await import('./skill-text.js');
    await context.output.document({ name: SKILL_NAME, text: SKILL_TEXT }, (safe) => safe.text.trimEnd());
  },
});

export const skillInstall = command({
  path: 'skill install',
  summary: 'install the skill for a coding agent, without connecting it',
  arguments: [{ usage: '<program>', about: 'claude-code, codex, opencode, gemini, copilot, qwen or kimi' }],
  options: INSTALL_OPTIONS,
  examples: [
    { line: 'asp skill install codex', about: 'in the skill folder of the user' },
    { line: 'asp skill install claude-code --project', about: 'in .claude/skills of this folder' },
  ],
  effect: 'local',
  stdout: 'the file with its changes',
  parse: (args) => ({
    agent: args.argument('program'),
    isProject: args.flag('project'),
    isDry: args.flag('dry-run'),
    isForced: args.flag('force'),
  }),
  async run(context, { agent, isProject, isDry, isForced }) {
    const [{ toSkillFile }, { findFolders }, { writeFiles }, { join }] = await Promise.all([
      import('./coding-agents.js'),
      import('../../profile/paths.js'),
      import('./written-files.js'),
      import('node:path'),
    ]);
    const { id, name, skills } = await findAgent(agent);
    if (skills === undefined) throw usageError(`asp does not know the skill folder of ${name}.`);
    const folder = isProject
      ? join(context.machine.workingDirectory, skills.project)
      : skills.user(findFolders(context));
    // A project owns the skill in its folder: asp disconnect leaves it there.
    const owner = isProject ? `${id} ${folder}` : id;
    const steps = await writeFiles(context, { agent: owner, isDry, isForced, isAddition: true }, [toSkillFile(folder)]);
    await printSteps(context, id, isDry, steps);
  },
});

async function findAgent(text: string): Promise<CodingAgent> {
  const { CODING_AGENTS } = await import('./coding-agents.js');
  const ids = CODING_AGENTS.map(({ id }) => id);
  const found = CODING_AGENTS.find(({ id }) => id === text.toLowerCase());
  if (found !== undefined) return found;
  throw usageError(`asp cannot connect '${text}'.`, {
    why: didYouMean(text, ids) ?? `it knows ${ids.join(', ')}.`,
    next: ['asp', 'connect', '--list'],
  });
}

/** How the coding agent starts asp as the acting agent. */
async function planLaunch(context: Context): Promise<Launch & { readonly handle: string }> {
  const { handle } = await context.agent();
  if (handle === undefined)
    throw new CliError('ASP_CONFIG', {
      message: 'The coding agent needs an agent to act as.',
      why: 'sign in, or choose one with --as.',
      next: ['asp', 'login'],
    });
  const { name, local } = await context.profile();
  const [program, ...args] = await findProgram(context);
  // The profile local means another service as soon as one is started later.
  const scope = ['-p', local?.url ?? name, '--as', handle];
  return { handle, command: program, args, scope, version: context.version };
}

/**
 * `asp` if it is on the PATH; otherwise this Node.js with this script. Always that on Windows: `asp` is a batch file
 * there, and not every coding agent starts its tools through a shell.
 */
async function findProgram({ environment, machine }: Context): Promise<[string, ...string[]]> {
  const [node = process.execPath, script = ''] = machine.commandLine;
  if (machine.platform === 'win32') return [node, script];
  const [{ delimiter, join }, { statSync }] = await Promise.all([import('node:path'), import('node:fs')]);
  const folders = (environment['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  if (folders.some((folder) => statSync(join(folder, 'asp'), { throwIfNoEntry: false })?.isFile() === true))
    return ['asp'];
  return [node, script];
}

async function printSteps(context: Context, agent: string, isDry: boolean, files: readonly FileStep[]): Promise<void> {
  await context.output.document({ agent, dry_run: isDry, files }, (safe, style) =>
    safe.files
      .map(({ path, action, diff }) =>
        [`${style.bold(action)} ${path}`, ...(diff === '' ? [] : diff.split('\n').map((line) => `  ${line}`))].join(
          '\n',
        ),
      )
      .join('\n'),
  );
  for (const { path, note } of files) if (note !== null) await context.output.note(`${path}: ${note}.`);
  if (isDry) await context.output.note('Nothing was changed (--dry-run).');
}

const WAKES = { monitor: 'its monitor', mcp: 'asp mcp --wake', run: 'asp run --acp' } as const;

async function listAgents(context: Context): Promise<void> {
  const [{ CODING_AGENTS }, { listWritten }] = await Promise.all([
    import('./coding-agents.js'),
    import('./written-files.js'),
  ]);
  const written = await listWritten(context);
  const items = CODING_AGENTS.map(({ id, name, wake, wakesBy, measuredWith }) => ({
    agent: id,
    name,
    connected: written.has(id),
    wake,
    how: wakesBy,
    measured_with: measuredWith ?? null,
  }));
  await context.output.list({ items, next_cursor: null }, [
    { title: 'agent', value: ({ agent }) => agent },
    { title: 'connected', value: ({ connected }) => (connected ? 'yes' : 'no') },
    { title: 'what wakes it', value: ({ wake }) => WAKES[wake] },
    {
      title: 'measured with',
      value: ({ measured_with: version }) => version ?? 'not measured',
      isFlexible: true,
      isOptional: true,
    },
  ]);
  await context.output.note('Unless one of these wakes it, a coding agent reads messages only while it works.');
}
