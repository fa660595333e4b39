import { leaf, type Row } from '../../context/leaf.js';

export const COMPLETION_ROWS: readonly Row[] = [
  {
    words: 'completion',
    summary: 'print the completion of a shell: bash, zsh, fish or powershell',
    details: [
      'It offers commands, options, and the handles, sessions and profiles that were seen before. It never asks a service',
      'and never starts asp.',
    ].join('\n'),
    arguments: [{ usage: '<shell>', about: 'bash, zsh, fish or powershell' }],
    examples: [
      { line: 'source <(asp completion bash)', about: 'in ~/.bashrc' },
      { line: 'asp completion fish > ~/.config/fish/completions/asp.fish', about: 'for fish' },
    ],
    effect: 'none',
    load: async () => leaf(await import('./completion.js')),
  },
];
