import { suggest } from '../../../kit/suggest.js';
import { command } from '../../command.js';
import { usageError } from '../../errors.js';

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
    if (isInstalling) {
      const { installCompletion } = await import('./install-completion.js');
      return await installCompletion(context, shell, script);
    }
    await (output.format === 'human' ? output.verbatim(script) : output.document({ shell, script }, () => script));
  },
});
