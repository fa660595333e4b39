import type { Environment } from '../../kit/environment.js';

const SECRETS = [
  ...['ASP_TOKEN', 'ASP_WS_TOKEN', 'ASP_CLIENT_SECRET', 'ASP_STORE_PASSPHRASE', 'ASP_OPERATOR_TOKEN'],
  ...['ASP_DATABASE', 'ASP_SERVE_DATABASE', 'ASP_SERVE_BUS', 'PGPASSWORD'],
];

/**
 * The environment for a program that we start: without our secrets, and without NUL, which variables cannot contain.
 * On Windows, a secret can have any case.
 */
export function childEnvironment(environment: Environment, more: Environment = {}): Record<string, string> {
  const entries = Object.entries({ ...environment, ...more }).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !SECRETS.includes(entry[0].toUpperCase()),
  );
  return Object.fromEntries(entries.map(([name, value]) => [name, value.replaceAll('\0', '')]));
}

/**
 * Starts a program through code that passes on this process's own environment: our secrets are removed from it
 * in the meantime.
 */
export async function withoutSecrets<Value>(start: () => Promise<Value>): Promise<Value> {
  const kept = SECRETS.flatMap((name): [string, string][] => {
    const value = process.env[name];
    delete process.env[name];
    return value === undefined ? [] : [[name, value]];
  });
  try {
    return await start();
  } finally {
    for (const [name, value] of kept) process.env[name] = value;
  }
}
