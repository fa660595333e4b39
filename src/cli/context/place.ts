import type { Transport } from '../../client/http/transport.js';
import { readConfig, writeConfig } from '../profile/config.js';
import { findLocalService } from '../profile/local-service.js';
import { type Paths, pathsOf } from '../profile/paths.js';
import { findProjectFile } from '../profile/project-file.js';
import { LOCAL, resolveProfile } from '../profile/resolve-profile.js';
import type { Output } from '../terminal/output.js';
import type { Context, Surroundings } from './context.js';
import type { Globals } from './globals.js';
import { lazy } from './lazy.js';

/** Which service, and what leads there. */
export type Place = Pick<
  Context,
  'paths' | 'config' | 'saveConfig' | 'projectFile' | 'localService' | 'endedService' | 'profile' | 'transport'
>;

/** The settings of this machine and the service they name, each read when it is first wanted. */
export function createPlace(
  surroundings: Surroundings,
  globals: Globals,
  output: Output,
): Place & { close(): Promise<void> } {
  const { environment, machine } = surroundings;
  const paths: Paths = pathsOf({ environment, machine });
  const opened: Transport[] = [];
  const transport = lazy(async () => {
    const built = await openTransport(surroundings, globals, output);
    opened.push(built);
    return built;
  });
  const projectFile = lazy(() => findProjectFile({ environment, machine }));
  const config = lazy(() => readConfig(paths.configFile));
  const found = lazy(() => findLocalService(paths, machine));
  const localService = async () => ((await found())?.isRunning === true ? (await found())?.record : undefined);
  const endedService = async () => ((await found())?.isRunning === false ? (await found())?.record : undefined);
  const flag = globals.profile;
  return {
    paths,
    config,
    saveConfig: async (next) => {
      await writeConfig(paths.configFile, next);
      const { rememberWords } = await import('./completion-memory.js');
      await rememberWords({ paths }, 'profiles', [...Object.keys(next.profiles), LOCAL], true);
    },
    projectFile,
    localService,
    endedService,
    profile: lazy(() => resolveProfile({ flag, environment, projectFile, config, localService, endedService })),
    transport,
    close: async () => {
      for (const each of opened) await each.close();
    },
  };
}

async function openTransport(
  { clock, environment, version }: Surroundings,
  globals: Globals,
  output: Output,
): Promise<Transport> {
  const [{ createTransport }, { proxyFromEnvironment }] = await Promise.all([
    import('../../client/http/create-transport.js'),
    import('../../client/http/proxy.js'),
  ]);
  const trace = globals.isDebug ? (entry: { kind: string; text: string }) => void output.trace(entry) : undefined;
  return createTransport({ clock, proxy: proxyFromEnvironment(environment), trace, userAgent: `asp-cli/${version}` });
}
