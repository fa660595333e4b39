import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { childEnvironment } from './child-environment.js';
import { CliError } from './cli-error.js';

type Environment = Readonly<Record<string, string | undefined>>;

/** The text that the user wrote in an editor (VISUAL, EDITOR); the file is readable by the user alone and removed. */
export async function editText(environment: Environment, temporaryDirectory: string): Promise<string> {
  const editor = environment['VISUAL'] ?? environment['EDITOR'] ?? 'vi';
  const [program = 'vi', ...words] = editor.split(' ').filter((word) => word !== '');
  const folder = await mkdtemp(join(temporaryDirectory, 'asp-edit-'));
  const path = join(folder, 'message.md');
  try {
    await writeFile(path, '', { mode: 0o600 });
    const code = await new Promise<number | null>((resolve, reject) => {
      const child = spawn(program, [...words, path], { stdio: 'inherit', env: childEnvironment(environment) });
      child.once('error', reject);
      child.once('exit', resolve);
    }).catch((error: unknown) => {
      throw new CliError('ASP_USAGE', {
        message: `The editor '${program}' cannot be started.`,
        why: 'set EDITOR.',
        cause: error,
      });
    });
    if (code !== 0)
      throw new CliError('ASP_USAGE', { message: `The editor ended with exit ${code}. Nothing was sent.` });
    return await readFile(path, 'utf8');
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
