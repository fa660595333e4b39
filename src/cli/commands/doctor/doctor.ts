import type { Context } from '../../context/context.js';
import { inPlace } from '../../context/in-place.js';
import { CliError } from '../../terminal/cli-error.js';
import type { Style } from '../../terminal/style.js';
import type { Words } from '../../words/words.js';
import { checkFiles } from './check-files.js';
import { checkLogins, checkService } from './check-service.js';
import { type Finding, ok, problem, warning } from './finding.js';

export interface DoctorOptions {
  readonly isFixing: boolean;
}

export function parse(words: Words): DoctorOptions {
  return { isFixing: words.flag('fix') };
}

/** Looks at everything that commands depend on; exit 1 when something is wrong. */
export async function run(context: Context, { isFixing }: DoctorOptions): Promise<void> {
  const items = [
    checkPlatform(context),
    ...checkEnvironment(context),
    ...(await checkFiles(context, isFixing)),
    ...(await checkService(context)),
    ...(await checkLogins(context)),
  ].map(({ fix, ...item }) => ({ ...item, fix: fix === undefined ? null : inPlace(fix, context.globals) }));
  const page = { items, next_cursor: null };
  const paint = { ok: 'green', fixed: 'green', warning: 'yellow', problem: 'red' } as const;
  await context.output.list(page, [
    { title: 'check', value: ({ check }) => check },
    {
      title: 'state',
      value: ({ state }) => state,
      paint: (text, { state }, style: Style) => style[paint[state]](text),
    },
    { title: 'what was found', value: ({ says }) => says, isFlexible: true },
    { title: 'try', value: ({ fix }) => fix?.join(' ') ?? '', isFlexible: true },
  ]);
  const wrong = items.filter(({ state }) => state === 'problem');
  if (wrong.length > 0)
    throw new CliError('ASP_UNHEALTHY', {
      message: `${wrong.length === 1 ? 'One check' : `${wrong.length} checks`} found a problem: ${wrong.map(({ check }) => check).join(', ')}.`,
      next: wrong[0]?.fix ?? undefined,
    });
}

function checkPlatform({ machine, version }: Context): Finding {
  const [major = 0, minor = 0] = machine.nodeVersion.replace(/^v/, '').split('.').map(Number);
  const says = `asp ${version}, Node.js ${machine.nodeVersion}, ${machine.platform} ${machine.arch}`;
  return major > 20 || (major === 20 && minor >= 19)
    ? ok('program', says)
    : problem('program', `${says}: Node.js 20.19 is needed`);
}

/** What the environment says that is dangerous, or that will surprise. */
function checkEnvironment({ environment }: Context): Finding[] {
  const has = (name: string): boolean => (environment[name] ?? '') !== '';
  const findings: Finding[] = [];
  if (environment['NODE_TLS_REJECT_UNAUTHORIZED'] === '0')
    findings.push(problem('environment', 'NODE_TLS_REJECT_UNAUTHORIZED=0 switches off the check of certificates'));
  if (has('ASP_TOKEN') && has('ASP_CLIENT_ID'))
    findings.push(warning('environment', 'ASP_TOKEN and ASP_CLIENT_ID are both set: ASP_TOKEN is used'));
  if (has('ASP_TOKEN') && !has('ASP_WS_TOKEN'))
    findings.push(warning('environment', 'ASP_TOKEN is set without ASP_WS_TOKEN: tail cannot connect'));
  const proxy = environment['HTTPS_PROXY'] ?? environment['https_proxy'];
  if (proxy !== undefined && proxy !== '' && !URL.canParse(proxy))
    findings.push(problem('environment', 'HTTPS_PROXY is not an address'));
  return findings;
}
