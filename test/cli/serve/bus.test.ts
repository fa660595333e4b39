import { describe, expect, it } from 'vitest';

import { runWords } from '../captured-run.js';

const CANARY = 'CANARY-password';

describe('the bus between services', () => {
  it.each([`nats://asp:${CANARY}@bus:4222`, `nats://${CANARY}@bus`, `tls://bus,tls://asp:${CANARY}@bus2`])(
    'a secret on the command line is refused without repeating it, and the error says where it belongs: %#',
    async (url) => {
      const { code, out, err } = await runWords(`serve --bus ${url} --database postgres://asp@db/asp`);
      expect({ code, out }).toEqual({ code: 2, out: '' });
      expect(err).toMatch(/ASP_SERVE_BUS.*--bus-creds/);
      expect(err).not.toContain(CANARY);
    },
  );

  it('is shown without its secret', async () => {
    const environment = { ASP_SERVE_BUS: `nats://asp:${CANARY}@one,nats://two:4223` };
    const { out, err } = await runWords('serve --print-config --json', { environment });
    expect(out + err).not.toContain(CANARY);
    const { items } = JSON.parse(out) as { items: { name: string; value: unknown; source: string }[] };
    expect(items.find((item) => item.name === 'bus')).toEqual({
      name: 'bus',
      value: 'nats://one:4222,nats://two:4223',
      source: 'ASP_SERVE_BUS',
    });
  });

  it.each([
    ['--bus nats://bus', /needs --database/],
    ['--bus-creds x.creds', /--bus-creds needs --bus/],
    ['--bus redis://bus --database postgres://asp@db/asp', /must look like nats:/],
    ['--bus nats://bus/path --database postgres://asp@db/asp', /must look like nats:/],
    ['--bus nats://one,tls://two --database postgres://asp@db/asp', /either all nats/],
    [
      '--bus nats://bus --bus-creds /nowhere.creds --database postgres://asp@db/asp',
      /Cannot read the credentials .*nowhere\.creds/,
    ],
  ])('%s is refused with the reason', async (words, reason) => {
    const { code, out, err } = await runWords(`serve --port 0 ${words}`);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(reason);
  });
});
