import { hidePasswords } from '../../kit/hide-passwords.js';

/** Commands that do not depend on the service. */
const EVERYWHERE = ['serve', 'config', 'profile', 'explain', 'help', 'schema', 'completion', 'demo'];
/** Commands that name their agent themselves. */
const NAMING = ['login', 'logout', 'use', 'auth'];

/** The options and variables of the run that choose service and agent. */
export interface ScopeOptions {
  readonly profile?: string | undefined;
  readonly as?: string | undefined;
}

const hasOption = (args: readonly string[], short: string, long: string): boolean =>
  args.some((word) => word === short || word === long || word.startsWith(`${long}=`));

/**
 * The next command for the same service and agent: it repeats the values of `--profile` and `--as`, which are not
 * stored anywhere else.
 */
export function withScopeOptions(args: readonly string[], { profile, as }: ScopeOptions): readonly string[] {
  const [, noun = ''] = args;
  if (EVERYWHERE.includes(noun) || args.includes('--help')) return args;
  const wantsProfile = profile !== undefined && profile !== '' && !hasOption(args, '-p', '--profile');
  const wantsAgent = as !== undefined && !NAMING.includes(noun) && !hasOption(args, '-a', '--as');
  return [...args, ...(wantsProfile ? ['-p', hidePasswords(profile)] : []), ...(wantsAgent ? ['--as', as] : [])];
}
