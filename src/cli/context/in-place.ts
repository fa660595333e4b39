/** Commands for which it does not matter which service is spoken to. */
const EVERYWHERE = ['serve', 'config', 'profile', 'explain', 'help', 'schema', 'completion', 'demo'];
/** Commands that name their agent themselves. */
const NAMING = ['login', 'logout', 'use', 'auth'];

/** What the run was told about the place where it acts. */
export interface PlaceWords {
  readonly profile?: string | undefined;
  readonly as?: string | undefined;
}

const isGiven = (words: readonly string[], short: string, long: string): boolean =>
  words.some((word) => word === short || word === long || word.startsWith(`${long}=`));

/** A command that helps, at the same service and as the same agent: what `--profile` and `--as` said nothing else remembers. */
export function inPlace(words: readonly string[], { profile, as }: PlaceWords): readonly string[] {
  const [, noun = ''] = words;
  if (EVERYWHERE.includes(noun) || words.includes('--help')) return words;
  const wantsProfile = profile !== undefined && profile !== '' && !isGiven(words, '-p', '--profile');
  const wantsAgent = as !== undefined && !NAMING.includes(noun) && !isGiven(words, '-a', '--as');
  return [...words, ...(wantsProfile ? ['-p', profile] : []), ...(wantsAgent ? ['--as', as] : [])];
}
