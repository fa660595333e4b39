import type { Context } from '../../context/context.js';
import { CliError } from '../../terminal/cli-error.js';

export function parse(): Record<never, never> {
  return {};
}

export async function run(context: Context): Promise<void> {
  const { configFile, stateDirectory, runtimeDirectory, dataDirectory } = context.paths;
  if (configFile === undefined)
    throw new CliError('ASP_CONFIG', {
      message: 'There is no place for settings: this user has no home directory.',
      why: 'set XDG_CONFIG_HOME to a folder.',
    });
  const places = {
    config: configFile,
    state: stateDirectory ?? null,
    runtime: runtimeDirectory,
    data: dataDirectory ?? null,
  };
  await context.output.document(places, (safe) => safe.config);
}
