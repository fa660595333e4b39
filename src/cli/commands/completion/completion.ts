import { command } from '../../command.js';
import { UsageError } from '../../errors.js';
import { suggest } from '../../suggest.js';

/** The shells that have a completion. */
export const SHELLS = ['bash', 'zsh', 'fish', 'powershell'] as const;
export type Shell = (typeof SHELLS)[number];

export const completion = command({
  path: 'completion',
  summary: 'print the completion of a shell: bash, zsh, fish or powershell',
  details: [
    'It offers commands, options, and the handles, sessions and profiles that were seen before. It never asks a service',
    'and never starts asp.',
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
    throw new UsageError(`No completion for ${typed}.`, {
      why: near === undefined ? `shells are ${SHELLS.join(', ')}.` : `did you mean ${near}?`,
      next: ['asp', 'completion', near ?? 'bash'],
    });
  },
  async run({ output, program }, { shell }) {
    const { completionScript } = await import('./scripts.js');
    const script = completionScript(shell, program);
    await (output.format === 'human' ? output.verbatim(script) : output.document({ shell, script }, () => script));
  },
});
