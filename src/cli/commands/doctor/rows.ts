import { leaf, type Row } from '../../context/leaf.js';

export const DOCTOR_ROWS: readonly Row[] = [
  {
    words: 'doctor',
    summary: 'look for what could be wrong: settings, files, service, clock, sign-ins',
    details: 'It changes nothing without --fix, and shows no secret. Exit 1 when something is wrong.',
    options: [{ flags: '--fix', about: 'close files that are open to others; clear away what a killed service left' }],
    examples: [
      { line: 'asp doctor', about: 'what was found, and what to do' },
      { line: 'asp doctor --fix --json', about: 'for a script' },
    ],
    effect: 'local',
    load: async () => leaf(await import('./doctor.js')),
  },
];
