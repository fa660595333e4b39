import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import * as z from 'zod/mini';

import { CliError } from '../../terminal/cli-error.js';
import { suggest } from '../../words/suggest.js';
import { type Layer, SETTING, SETTING_NAMES, type SettingName } from './settings.js';

/** The settings of a file: a JSON object whose keys are the long names of the flags. */
export async function readConfigFile(path: string): Promise<Layer> {
  const json = parse(path, await read(path));
  const shape = Object.fromEntries(SETTING_NAMES.map((name) => [name, z.optional(SETTING[name].inFile)]));
  const result = z.strictObject(shape).safeParse(json);
  if (!result.success) throw refusal(path, result.error.issues[0]);
  const given: Partial<Record<SettingName, string>> = {};
  for (const name of SETTING_NAMES) {
    const value = result.data[name];
    if (value === undefined) continue;
    const text = String(value);
    // A path is meant from where the file is, wherever the service was started.
    const isPath = (name === 'data' && text !== 'memory') || name === 'bus-creds';
    given[name] = isPath ? resolve(dirname(path), text) : text;
  }
  return { given, nameOf: (name) => `"${name}" in ${path}` };
}

async function read(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new CliError('ASP_CONFIG', { message: `The configuration ${path} cannot be read.`, cause: error });
  }
}

function parse(path: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new CliError('ASP_CONFIG', { message: `The configuration ${path} is not JSON.`, cause: error });
  }
}

function refusal(path: string, issue: z.core.$ZodIssue | undefined): CliError {
  if (issue?.code === 'unrecognized_keys') {
    const [unknown = ''] = issue.keys;
    const [near] = suggest(unknown.replaceAll('_', '-'), SETTING_NAMES);
    return new CliError('ASP_CONFIG', {
      message: `'${unknown}' is no setting of a service (in ${path}).`,
      why: near === undefined ? `settings are ${SETTING_NAMES.join(', ')}.` : `did you mean '${near}'?`,
    });
  }
  const place = issue === undefined || issue.path.length === 0 ? 'The configuration' : `"${issue.path.join('.')}"`;
  const expected = issue !== undefined && 'expected' in issue ? ` must be of type ${issue.expected}` : ' is not valid';
  return new CliError('ASP_CONFIG', { message: `${place}${expected} (in ${path}).` });
}
