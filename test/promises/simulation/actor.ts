import { createHash } from 'node:crypto';
import { formBody } from '../../support/http.js';
import { field, text } from '../../support/json.js';
import { AGENT_SCOPE, challengeOf, REDIRECT_URI } from '../../support/oauth.js';
import { type Call, HttpClient, type Reply } from './http-client.js';
import { ADDRESSES } from './process.js';
import type { Stage } from './stage.js';

const VERIFIER = 'v'.repeat(64);
const TRIES_MAX = 300;
const FORM = { 'content-type': 'application/x-www-form-urlencoded' };

/** What an agent's program keeps between two runs. */
export interface Credentials {
  readonly handle: string;
  readonly clientId: string;
  readonly accessToken: string;
  readonly refreshToken: string;
}

export interface Write {
  readonly method: string;
  readonly path: string;
  readonly key: string;
  readonly body?: string | undefined;
  readonly type?: string;
}

/** A program that acts for one agent. It retries calls with an unknown result under the same key. */
export class Actor {
  readonly handle: string;
  readonly clientId: string;
  accessToken: string;
  refreshToken: string | undefined;
  /** Refresh tokens that used to be valid. */
  readonly spent: string[] = [];
  /** The answer to the last refresh was lost, so the token may be refused. */
  #isInDoubt = false;
  readonly #stage: Stage;
  readonly #http: HttpClient;
  /** A call that ends the family was made. It may take effect late. */
  #isThreatened = false;
  #renewing: Promise<void> | undefined;

  constructor(stage: Stage, credentials: Credentials) {
    this.#stage = stage;
    this.handle = credentials.handle;
    this.clientId = credentials.clientId;
    this.accessToken = credentials.accessToken;
    this.refreshToken = credentials.refreshToken;
    this.#http = new HttpClient(() => stage.connect());
  }

  get grantId(): string {
    const claims: unknown = JSON.parse(Buffer.from(this.accessToken.split('.')[1] ?? '', 'base64url').toString());
    return text(claims, 'gid');
  }

  /** Retries a write until its result is known. A 429 means that it had no effect. */
  async settle(http: HttpClient, { method, path, key, body, type = 'application/json' }: Write): Promise<Reply> {
    return this.#repeat(http, () => ({
      method,
      path: `/v1${path}`,
      headers: {
        authorization: `Bearer ${this.accessToken}`,
        ...(method === 'GET' ? {} : { 'idempotency-key': key }),
        ...(body === undefined ? {} : { 'content-type': type }),
      },
      body,
    }));
  }

  async #repeat(http: HttpClient, ask: () => Call): Promise<Reply> {
    const { world } = this.#stage;
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      const used = this.accessToken;
      const reply = await http.call(ask());
      world.trace(`${this.handle} got ${reply?.status ?? 'nothing'}`);
      if (reply === undefined || reply.status >= 500) world.count('indeterminate');
      else if (reply.status !== 401) return reply;
      else await this.renew(used);
      await this.#stage.pause();
    }
    throw new Error(`${this.handle} gave up`);
  }

  /** Gets an access token other than `used`, by refreshing or by a new authorization. */
  async renew(used: string): Promise<void> {
    if (this.accessToken !== used) return;
    this.#renewing ??= this.#renew().finally(() => {
      this.#renewing = undefined;
    });
    await this.#renewing;
  }

  async #renew(): Promise<void> {
    while (!((await this.#refresh()) || (await this.#authorize()))) await this.#stage.pause();
  }

  /** Returns false if the family has ended. */
  async #refresh(): Promise<boolean> {
    const { world } = this.#stage;
    while (this.refreshToken !== undefined) {
      const presented = this.refreshToken;
      const reply = await this.#askToken(this.#http, { grant_type: 'refresh_token', refresh_token: presented });
      if (reply?.status === 200) {
        this.spent.push(presented);
        this.#keep(reply);
        world.count('refreshed');
        return true;
      }
      if (reply === undefined || reply.status >= 500) this.#isInDoubt = true;
      else if (reply.status !== 429) {
        if (!this.#isInDoubt && !this.#isThreatened)
          world.violate(`${this.handle}: a good refresh token was refused: ${reply.text}`);
        this.refreshToken = undefined;
        world.count('families lost');
      }
      await this.#stage.pause();
    }
    return false;
  }

  async #authorize(): Promise<boolean> {
    const query = new URLSearchParams({
      response_type: 'code',
      client_id: this.clientId,
      redirect_uri: REDIRECT_URI,
      code_challenge: challengeOf(VERIFIER),
      code_challenge_method: 'S256',
      scope: AGENT_SCOPE.join(' '),
      state: 'the-state',
      agent_handle: this.handle,
    });
    const headers = { authorization: `Bearer ${this.#stage.operatorSecret}` };
    const approved = await this.#http.call({ method: 'POST', path: `/oauth/authorize?${query}`, headers });
    const location = approved?.headers.get('location');
    const code = location === undefined ? null : new URL(location).searchParams.get('code');
    if (code === null) return false;
    const reply = await this.#askToken(this.#http, {
      grant_type: 'authorization_code',
      code,
      code_verifier: VERIFIER,
      redirect_uri: REDIRECT_URI,
    });
    if (reply?.status !== 200) return false;
    this.#isThreatened = false;
    this.#keep(reply);
    this.#stage.world.count('authorized');
    return true;
  }

  async #askToken(http: HttpClient, fields: Readonly<Record<string, string>>): Promise<Reply | undefined> {
    const resource = [ADDRESSES.baseUrl, ADDRESSES.wsUrl];
    const body = formBody({ client_id: this.clientId, ...fields, resource });
    const { world } = this.#stage;
    world.trace(`${this.handle} asks for a token by ${fields['grant_type']}`);
    const reply = await http.call({ method: 'POST', path: '/token', headers: FORM, body });
    world.trace(`${this.handle} was told ${reply?.status ?? 'nothing'} of a token`);
    return reply;
  }

  /** Revokes the family, and returns it if the revocation was acknowledged. */
  async revoke(http: HttpClient): Promise<string | undefined> {
    const token = this.refreshToken;
    if (token === undefined) return undefined;
    this.#isThreatened = true;
    const family = this.#stage.books.tokenOf(hashOf(token))?.family;
    const body = formBody({ client_id: this.clientId, token });
    const reply = await http.call({ method: 'POST', path: '/revoke', headers: FORM, body });
    if (reply?.status !== 200 || family === undefined) return undefined;
    if (this.#stage.books.tokenOf(hashOf(token))?.isRevoked !== true)
      this.#stage.world.violate(`${this.handle}: a revocation was acknowledged, and the family lives`);
    return family;
  }

  /** Presents a spent refresh token, as a thief would. The service must end its family. */
  async reuse(http: HttpClient): Promise<void> {
    const token = this.spent.at(-1);
    if (token === undefined) return;
    this.#isThreatened = true;
    const fields = { grant_type: 'refresh_token', refresh_token: token };
    const reply = await this.#askToken(http, fields);
    if (reply === undefined || reply.status >= 500 || reply.status === 429) return;
    const known = this.#stage.books.tokenOf(hashOf(token));
    if (reply.status === 200) this.#stage.world.violate(`${this.handle}: a spent refresh token was taken`);
    if (known !== undefined && !known.isRevoked)
      this.#stage.world.violate(`${this.handle}: a spent refresh token was presented, and its family lives`);
  }

  #keep(reply: Reply): void {
    this.accessToken = text(reply.json, 'access_token');
    this.refreshToken = text(reply.json, 'refresh_token');
    this.#isInDoubt = false;
    const known = this.#stage.books.tokenOf(hashOf(this.refreshToken));
    if (known?.isLive !== true && !this.#isThreatened)
      this.#stage.world.violate(
        `${this.handle}: was given a refresh token that is not good: ${field(known, 'family')}`,
      );
  }
}

function hashOf(secret: string): string {
  return createHash('sha256').update(secret).digest('base64url');
}
