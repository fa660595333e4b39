import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { DASHBOARD_STYLE } from '../../../src/service/web/assets.js';
import { request } from '../../support/http.js';
import { openStage, type Stage, type Visitor } from './stage.js';

let stage: Stage;
let ada: Visitor;
let path: string;
beforeAll(async () => {
  stage = await openStage();
  ada = await stage.enter('ada');
  const { answer } = await ada.open('/dashboard/agents');
  path = /<link rel="stylesheet" href="([^"]+)">/.exec(answer.text)?.[1] ?? '';
});
afterAll(() => stage.close());

const fetchStyle = (accepted: string, from = path) =>
  request(`${stage.web}${from}`, { headers: { 'accept-encoding': accepted } });

describe('The style of the dashboard', () => {
  it('is for everyone, is kept by browsers, and is nothing but a style', async () => {
    const { status, text, headers } = await request(`${stage.web}${path}`);
    expect([status, text]).toEqual([200, DASHBOARD_STYLE]);
    expect(headers).toMatchObject({
      'content-type': 'text/css; charset=utf-8',
      'cache-control': 'public, max-age=31536000, immutable',
      vary: 'accept-encoding',
      'cross-origin-resource-policy': 'same-origin',
      'x-content-type-options': 'nosniff',
    });
    expect(headers).not.toHaveProperty('set-cookie');
  });

  it.each([
    ['gzip, deflate, br', 'br', brotliDecompressSync],
    ['GZIP;q=0.5', 'gzip', gunzipSync],
    ['br;q=0, gzip', 'gzip', gunzipSync],
  ])('is compressed for a browser that accepts %s', async (accepted, encoding, decompress) => {
    for (const _ of ['first', 'again']) {
      const { headers, bytes } = await fetchStyle(accepted);
      expect(headers['content-encoding']).toBe(encoding);
      expect(decompress(bytes).toString()).toBe(DASHBOARD_STYLE);
    }
  });

  it.each(['', 'identity', 'zstd', 'br;q=0.0, gzip; q=0'])(
    'is sent as it is to a browser that accepts %j',
    async (accepted) => {
      const { headers, text } = await fetchStyle(accepted);
      expect([headers['content-encoding'], text]).toEqual([undefined, DASHBOARD_STYLE]);
    },
  );

  it('is also sent to a page of another version, which must ask again', async () => {
    const { status, headers, text } = await fetchStyle('', '/dashboard/styles/of-another-version.css');
    expect([status, headers['cache-control'], text]).toEqual([200, 'no-store', DASHBOARD_STYLE]);
  });

  it('leaves the first page of a new browser below 60 KB', async () => {
    const { answer } = await ada.open('/dashboard/agents');
    const { bytes } = await fetchStyle('br');
    expect(Buffer.byteLength(answer.text) + bytes.length).toBeLessThan(60_000);
  });
});
