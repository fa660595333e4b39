import { command } from '../../command.js';
import { usageError } from '../../errors.js';

const SYSTEM = { flags: '--system', about: 'for the whole machine, as root (default: for you)' } as const;
const DRY_RUN = { flags: '--dry-run', about: 'print the unit and the commands, without changing anything' } as const;

export const serveInstall = command({
  path: 'serve install',
  summary: 'have systemd start the service at boot and restart it',
  details: [
    'Writes a confined unit, asp.service, enables it and starts it. Settings come from --config; secrets such as the URL of a database',
    'belong in a file of variables that only you or root can read: ~/.config/asp-cli/serve.env, or /etc/asp/environment with --system.',
    'Run this again after you change the settings or move asp.',
  ].join('\n'),
  options: [
    SYSTEM,
    { flags: '--run-as <user>', about: 'with --system: the user of the service (default asp)' },
    { flags: '--config <path>', about: 'the settings of the service, as for asp serve' },
    DRY_RUN,
  ],
  examples: [
    { line: 'asp serve install --dry-run', about: 'preview the unit and the commands' },
    { line: 'asp serve install', about: 'a user service, which systemd starts when you sign in' },
    { line: 'sudo asp serve install --system --config /etc/asp/serve.json', about: 'a system service' },
  ],
  effect: 'local',
  stdout: 'the path of the unit; with --dry-run its text',
  isEndless: true,
  parse: (args) => ({
    isSystem: args.flag('system'),
    runAs: args.text('run-as'),
    config: args.text('config'),
    isDry: args.flag('dry-run'),
  }),
  async run(context, wishes) {
    if (wishes.runAs !== undefined && !wishes.isSystem) throw usageError('--run-as needs --system.');
    return (await import('./unit.js')).install(context, wishes);
  },
});

export const serveUninstall = command({
  path: 'serve uninstall',
  summary: 'stop the service that serve install started, and remove its unit',
  details: 'The data, the settings and the log stay.',
  options: [SYSTEM, DRY_RUN],
  examples: [
    { line: 'asp serve uninstall', about: 'your user service' },
    { line: 'sudo asp serve uninstall --system', about: 'the system service' },
  ],
  effect: 'local',
  stdout: 'the path of the unit that was removed',
  isEndless: true,
  parse: (args) => ({ isSystem: args.flag('system'), isDry: args.flag('dry-run') }),
  run: async (context, wishes) => (await import('./unit.js')).uninstall(context, wishes),
});
