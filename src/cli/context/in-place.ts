/** Commands that do not depend on the service. */
const EVERYWHERE = ['serve', 'config', 'profile', 'explain', 'help', 'schema', 'completion', 'demo'];
/** Commands that name their agent themselves. */
const NAMING = ['login', 'logout', 'use', 'auth'];

/** The options and variables of the run that choose service and agent. */
export interface PlaceWords {
  readonly profile?: string | undefined;
  readonly as?: string | undefined;
}

const isGiven = (words: readonly string[], short: string, long: string): boolean =>
  words.some((word) => word === short || word === long || word.startsWith(`${long}=`));

/**
 * The next command for the same service and agent: it repeats the values of `--profile` and `--as`, which are not
 * stored anywhere else.
 */
export function inPlace(words: readonly string[], { profile, as }: PlaceWords): readonly string[] {
  const [, noun = ''] = words;
  if (EVERYWHERE.includes(noun) || words.includes('--help')) return words;
  const wantsProfile = profile !== undefined && profile !== '' && !isGiven(words, '-p', '--profile');
  const wantsAgent = as !== undefined && !NAMING.includes(noun) && !isGiven(words, '-a', '--as');
  return [...words, ...(wantsProfile ? ['-p', profile] : []), ...(wantsAgent ? ['--as', as] : [])];
}
