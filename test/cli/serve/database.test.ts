import { describe, expect, it } from 'vitest';

import { runWords } from '../captured-run.js';

const CANARY = 'CANARY-password';

describe('the database of a service', () => {
  it.each([`postgres://asp:${CANARY}@db/asp`, `postgres://asp@db/asp?password=${CANARY}`])(
    'a password on the command line is refused without repeating it, and the error says where it belongs: %#',
    async (url) => {
      const { code, out, err } = await runWords(`serve --database ${url}`);
      expect({ code, out }).toEqual({ code: 2, out: '' });
      expect(err).toMatch(/ASP_DATABASE.*PGPASSWORD.*pgpass/);
      expect(err).not.toContain(CANARY);
    },
  );

  it('comes from ASP_DATABASE, unless the service’s variable or the flag is set, and is shown without its password', async () => {
    const shown = async (words: string, environment: Record<string, string>) => {
      const { out, err } = await runWords(`serve ${words} --print-config --json`, { environment });
      expect(out + err).not.toContain(CANARY);
      const { items } = JSON.parse(out) as { items: { name: string; value: unknown; source: string }[] };
      const { value, source } = items.find((item) => item.name === 'database') ?? {};
      return { value, source };
    };
    const ASP_DATABASE = `postgres://asp:${CANARY}@db/asp?search_path=blue`;
    const ASP_SERVE_DATABASE = `postgres://asp:${CANARY}@other/asp`;
    expect(await shown('', { ASP_DATABASE })).toEqual({
      value: 'postgres://asp@db/asp (schema blue)',
      source: 'ASP_DATABASE',
    });
    expect(await shown('', { ASP_DATABASE, ASP_SERVE_DATABASE })).toMatchObject({ value: 'postgres://asp@other/asp' });
    expect(await shown('--database postgres://asp@third/asp', { ASP_DATABASE, ASP_SERVE_DATABASE })).toEqual({
      value: 'postgres://asp@third/asp',
      source: '--database',
    });
  });

  it.each([
    ['mysql://root@db/asp', /must look like postgres:\/\/<user>@<host>:<port>\/<database>\./],
    [
      'postgres://asp@db/asp?serch_path=blue',
      /does not support serch_path in a database URL: did you mean search_path\?/,
    ],
    [
      'postgres://asp@db/asp?connect_timeout=abc',
      /does not support connect_timeout in a database URL\. Leave it out\./,
    ],
    ['postgres://asp@db/asp?sslmode=verify_full', /sslmode .* is 'verify_full'\. Use disable, .* or verify-full\./],
    ['postgres://asp@127.0.0.1:1/asp', /nothing listens there/],
  ])('%s is refused with the reason', async (url, reason) => {
    const { code, out, err } = await runWords(`serve --port 0 --database ${url}`);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(reason);
  });

  it.each([
    ['--data memory --database-connections 20', '--database-connections needs --database.'],
    [
      '--database postgres://asp@db/asp --database-lock-timeout 15s',
      'must be shorter than --database-statement-timeout',
    ],
  ])('has limits that make sense: %s is refused', async (words, why) => {
    const { code, out, err } = await runWords(`serve --port 0 ${words}`);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toContain(why);
  });

  it('requires a folder for attachments', async () => {
    const { code, err } = await runWords('serve --port 0 --data memory --database postgres://asp@db/asp');
    expect(code).toBe(2);
    expect(err).toContain('folder of the attachments');
  });
});

describe('the bucket of the attachments', () => {
  const KEYS = { AWS_ACCESS_KEY_ID: 'key', AWS_SECRET_ACCESS_KEY: CANARY };
  it.each([
    ['--attachments s3://bucket', KEYS, /needs --database/],
    ['--attachments s3://bucket --database postgres://asp@db/asp', {}, /AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY/],
    ['--attachments /mnt/files --database postgres://asp@db/asp', KEYS, /must look like s3:\/\/bucket\/prefix/],
    ['--attachments s3://bucket?region=A --database postgres://asp@db/asp', KEYS, /not the name of a region/],
    [
      '--attachments s3://bucket?endpoint=http://127.0.0.1:1 --database postgres://asp@127.0.0.1:1/asp',
      KEYS,
      /The bucket s3:\/\/bucket cannot be used: The object store does not respond/,
    ],
  ])('%s is refused with the reason', async (words, environment, reason) => {
    const { code, out, err } = await runWords(`serve --port 0 ${words}`, { environment });
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(reason);
    expect(err).not.toContain(CANARY);
  });
});
