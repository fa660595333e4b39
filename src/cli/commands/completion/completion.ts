import { promises } from 'node:fs';
import { dirname, join, relative } from 'node:path';

import { makeDirectory, readIfPresent, replaceFile } from '../../../kit/private-file.js';
import { suggest } from '../../../kit/suggest.js';
import { command } from '../../command.js';
import type { Context } from '../../context/context.js';
import { usageError } from '../../errors.js';
import { unusableFile } from '../../input.js';
import { findFolders } from '../../profile/paths.js';

/** The shells that have completions. */
export const SHELLS = ['bash', 'zsh', 'fish', 'powershell'] as const;
export type Shell = (typeof SHELLS)[number];

/** The scripts of completions/, inserted by the build. */
declare const ASP_COMPLETIONS: Readonly<Record<Shell, string>>;

export const completion = command({
  path: 'completion',
  summary: 'print or install the completion script for a shell: bash, zsh, fish or powershell',
  details: [
    'The script asks asp for candidates: commands, options, values, and the handles, sessions and files from earlier',
    'commands. It never contacts a service and never signs in.',
    '',
    '--install writes it to the completions of bash or fish. For zsh, it writes a separate file and adds a line to',
    '.zshrc that loads it. In PowerShell, append it to $PROFILE yourself.',
  ].join('\n'),
  arguments: [{ usage: '<shell>', about: 'one of bash, zsh, fish or powershell' }],
  options: [{ flags: '--install', about: 'write the script where new shells load it' }],
  examples: [
    { line: 'asp completion zsh --install', about: 'for every new zsh' },
    { line: 'source <(asp completion bash)', about: 'for this bash, or in ~/.bashrc' },
  ],
  effect: 'local',
  stdout: 'the script; with --install, what happened to which file',
  parse(args) {
    const typed = args.argument('shell');
    const shell = SHELLS.find((each) => each === typed.toLowerCase() || (each === 'powershell' && typed === 'pwsh'));
    if (shell !== undefined) return { shell, isInstalling: args.flag('install') };
    const [near] = suggest(typed, SHELLS);
    throw usageError(`No completion for ${typed}.`, {
      why: near === undefined ? `shells: ${SHELLS.join(', ')}.` : `did you mean ${near}?`,
      next: ['asp', 'completion', near ?? 'bash'],
    });
  },
  async run(context, { shell, isInstalling }) {
    const { output } = context;
    const script = ASP_COMPLETIONS[shell];
    if (isInstalling) return installCompletion(context, shell, script);
    await (output.format === 'human' ? output.verbatim(script) : output.document({ shell, script }, () => script));
  },
});

/** Where a shell gets its completions from. */
interface CompletionFiles {
  readonly path: string;
  /** For a shell that would not look there: the line of its startup file that loads them. */
  readonly startup?: { readonly path: string; readonly line: string };
  /** Printed after a change. */
  readonly note: string;
}

/** A file and what happened to it. */
interface Step {
  readonly path: string;
  readonly action: 'create' | 'change' | 'keep';
}

const SCRIPT_MODE = 0o644;

/**
 * Writes the script where the shell finds it, and one line to the startup file of a shell that needs one. A second time
 * changes nothing.
 * @throws CliError `ASP_USAGE` for PowerShell, for a file of someone else, and for one that cannot be written
 */
async function installCompletion(context: Context, shell: Shell, script: string): Promise<void> {
  const { path, startup, note } = findCompletionFiles(context, shell);
  const steps = [await writeScript(path, script), ...(startup === undefined ? [] : [await addLine(startup)])];
  await context.output.document({ shell, files: steps }, (safe, style) =>
    safe.files.map((step) => `${style.bold(step.action)} ${step.path}`).join('\n'),
  );
  const isNew = steps.some(({ action }) => action !== 'keep');
  await context.output.note(isNew ? note : 'Nothing was changed: the completions were already installed.');
}

function findCompletionFiles(context: Context, shell: Shell): CompletionFiles {
  if (shell === 'powershell')
    throw usageError('asp cannot install completions for PowerShell.', {
      why: 'only PowerShell knows where its profile is. Run this there: asp completion powershell >> $PROFILE',
    });
  const { home, named } = findFolders(context);
  const data = named('XDG_DATA_HOME', '.local', 'share');
  if (shell === 'bash')
    return {
      path: join(named('BASH_COMPLETION_USER_DIR', relative(home, data), 'bash-completion'), 'completions', 'asp'),
      note: 'Open a new bash to use them. It needs the package bash-completion.',
    };
  if (shell === 'fish')
    return {
      path: join(named('XDG_CONFIG_HOME', '.config'), 'fish', 'completions', 'asp.fish'),
      note: 'Open a new fish to use them.',
    };
  const path = join(data, 'asp-cli', 'completions', '_asp');
  const load = `source '${path.replaceAll("'", "'\\''")}'`;
  return {
    path,
    startup: {
      path: join(named('ZDOTDIR'), '.zshrc'),
      line: `(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }; ${load}`,
    },
    note: 'Open a new zsh to use them.',
  };
}

async function writeScript(path: string, script: string): Promise<Step> {
  const before = await reading(path);
  if (before === script) return { path, action: 'keep' };
  if (before !== undefined && !before.includes('asp __complete'))
    throw usageError(`${path} is not a completion script of asp.`, { why: 'move it away, and try again.' });
  await writing(path, () => replaceFile(path, script, { mode: SCRIPT_MODE }));
  return { path, action: before === undefined ? 'create' : 'change' };
}

/** Adds a line at the end, also where the file is a link to one kept elsewhere. */
async function addLine({ path, line }: { readonly path: string; readonly line: string }): Promise<Step> {
  const before = await reading(path);
  if (before?.split('\n').includes(line)) return { path, action: 'keep' };
  const start = before === undefined || before === '' || before.endsWith('\n') ? '' : '\n';
  await writing(path, () => promises.appendFile(path, `${start}${line}\n`));
  return { path, action: before === undefined ? 'create' : 'change' };
}

async function reading(path: string): Promise<string | undefined> {
  return readIfPresent(path).catch((error: unknown) => Promise.reject(unusableFile(`Cannot read ${path}.`, error)));
}

async function writing(path: string, work: () => Promise<void>): Promise<void> {
  try {
    makeDirectory(dirname(path), 0o777);
  } catch (error) {
    throw unusableFile(`Cannot create ${dirname(path)}.`, error);
  }
  await work().catch((error: unknown) => {
    throw unusableFile(`Cannot write ${path}.`, error);
  });
}
