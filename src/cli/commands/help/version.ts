import type { Context } from '../../context/context.js';

export type VersionOptions = Record<never, never>;

export function parse(): VersionOptions {
  return {};
}

export async function run(context: Context): Promise<void> {
  const { version, output, machine } = context;
  await output.document(
    { version, node: machine.nodeVersion, platform: machine.platform, arch: machine.arch },
    (safe) => safe.version,
  );
}
