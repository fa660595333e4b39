import { command } from '../../command.js';
import { readDuration } from '../../values.js';
import { findService } from './operate.js';

export const serveClockAdvance = command({
  path: 'serve clock advance',
  summary: 'let time pass at a local service that was started with --clock',
  details: [
    'Tokens, signed addresses, limits and invitations expire, and the service does once, now, everything that it would have',
    'done meanwhile. Programs that use the service keep the time of this machine. 0s shows the time of the service.',
  ].join('\n'),
  arguments: [{ usage: '<duration>', about: 'how far to jump: 15m, 24h, 30d' }],
  examples: [
    { line: 'asp serve clock advance 15m', about: 'every access token expires' },
    { line: 'asp serve clock advance 0s', about: 'the time of the service' },
  ],
  effect: 'local',
  stdout: 'the time of the service',
  parse: (args) => ({ ms: readDuration('<duration>', args.argument('duration')) }),
  async run(context, { ms }) {
    const { now } = await (await findService(context)).call('advanceClock', { body: { by_ms: ms } });
    await context.output.document({ now }, (safe) => new Date(safe.now).toISOString());
  },
});
