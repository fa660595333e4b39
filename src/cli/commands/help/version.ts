import type { Context } from '../../context/context.js';
import type { Words } from '../../words/words.js';

export interface VersionOptions {
  /** Asks the npm registry for the newest version. */
  readonly isCheck: boolean;
}

export function parse(words: Words): VersionOptions {
  return { isCheck: words.flag('check') };
}

export async function run(context: Context, { isCheck }: VersionOptions): Promise<void> {
  const { version, output, machine } = context;
  const installed = { version, node: machine.nodeVersion, platform: machine.platform, arch: machine.arch };
  if (!isCheck) return output.document(installed, (safe) => safe.version);
  const { askNewest } = await import('./newest-version.js');
  const { newest, registry, isNewer } = await askNewest(context);
  const update = isNewer ? ['npm', 'install', '-g', `asp-cli@${newest}`] : null;
  await output.document({ ...installed, newest, up_to_date: !isNewer, update, registry }, (safe) => safe.newest);
  await output.note(
    update === null ? `This is asp ${version}: nothing newer is out.` : `This is asp ${version}. ${update.join(' ')}`,
  );
}
