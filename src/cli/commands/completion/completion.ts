import { command } from '../../command.js';
import { usageError } from '../../errors.js';
import { suggest } from '../../values.js';

/** The shells that have completions. */
export const SHELLS = ['bash', 'zsh', 'fish', 'powershell'] as const;
export type Shell = (typeof SHELLS)[number];

/** The scripts of completions/, inserted by the build. */
declare const ASP_COMPLETIONS: Readonly<Record<Shell, string>>;

export const completion = command({
  path: 'completion',
  summary: 'print the completion script for a shell: bash, zsh, fish or powershell',
  details: [
    'The script asks asp for candidates: commands, options, values, and the handles, sessions and files from earlier',
    'commands. It never contacts a service and never signs in.',
  ].join('\n'),
  arguments: [{ usage: '<shell>', about: 'one of bash, zsh, fish or powershell' }],
  examples: [
    { line: 'source <(asp completion bash)', about: 'in ~/.bashrc' },
    { line: 'asp completion fish > ~/.config/fish/completions/asp.fish', about: 'for fish' },
  ],
  effect: 'none',
  stdout: 'the script',
  parse(args) {
    const typed = args.argument('shell');
    const shell = SHELLS.find((each) => each === typed.toLowerCase() || (each === 'powershell' && typed === 'pwsh'));
    if (shell !== undefined) return { shell };
    const [near] = suggest(typed, SHELLS);
    throw usageError(`No completion for ${typed}.`, {
      why: near === undefined ? `shells: ${SHELLS.join(', ')}.` : `did you mean ${near}?`,
      next: ['asp', 'completion', near ?? 'bash'],
    });
  },
  async run({ output }, { shell }) {
    const script = ASP_COMPLETIONS[shell];
    await (output.format === 'human' ? output.verbatim(script) : output.document({ shell, script }, () => script));
  },
});
