import { type RunningService, type ServiceOptions, startService } from '../../../src/service/service.js';
import { type Answer, request } from '../../support/http.js';
import { text } from '../../support/json.js';
import {
  type AuthorizationParameters,
  authorizationUrl,
  createVerifier,
  discover,
  mustRegister,
  type Place,
  redeemCode,
  redirectParameters,
} from '../../support/oauth.js';
import { TEST_STORE, takeSchema } from '../../support/stores.js';
import { createHandClock, type HandClock } from '../sessions/stage.js';

export const ALICE = '@alice.bot';
export const BOB = '@bob.bot';

/** The tokens of a public client after a login. */
export interface TokenSet {
  readonly accessToken: string;
  readonly refreshToken: string;
}

/** A running service with two local accounts and a clock that moves only when a test advances it. */
export interface Desk {
  readonly service: RunningService;
  readonly place: Place;
  readonly clock: HandClock;
  /** Approves as the local user and returns the whole answer. */
  approve(parameters: Partial<AuthorizationParameters>, bearer?: string): Promise<Answer>;
  /** Returns a code for `clientId` and the verifier that redeems it. */
  authorize(
    clientId: string,
    overrides?: Partial<AuthorizationParameters>,
  ): Promise<{ code: string; verifier: string }>;
  login(clientId: string, overrides?: Partial<AuthorizationParameters>): Promise<TokenSet>;
  stop(): Promise<void>;
}

export async function openDesk(options: Partial<ServiceOptions> = {}): Promise<Desk> {
  const clock = createHandClock();
  const schema = TEST_STORE === 'postgres' ? takeSchema() : undefined;
  const service = await startService({
    host: '127.0.0.1',
    port: 0,
    data: 'memory',
    databaseUrl: schema?.url,
    areLimitsOn: false,
    clock,
    seeds: [{ handle: ALICE }, { handle: BOB }],
    ...options,
  });
  const place = await discover(service.baseUrl);

  const approve: Desk['approve'] = (parameters, bearer = service.operatorSecret) =>
    request(
      authorizationUrl(place, {
        clientId: '',
        challenge: createVerifier().challenge,
        agentHandle: ALICE,
        ...parameters,
      }),
      { method: 'POST', headers: { authorization: `Bearer ${bearer}` } },
    );
  const authorize: Desk['authorize'] = async (clientId, overrides = {}) => {
    const { verifier, challenge } = createVerifier();
    const answer = await approve({ clientId, challenge, ...overrides });
    const code = redirectParameters(answer).get('code');
    if (code === null) throw new Error(`no code: ${answer.headers['location']}`);
    return { code, verifier };
  };
  return {
    service,
    place,
    clock,
    approve,
    authorize,
    async login(clientId, overrides) {
      const { code, verifier } = await authorize(clientId, overrides);
      const answer = await redeemCode(place, clientId, code, verifier);
      return { accessToken: text(answer.json, 'access_token'), refreshToken: text(answer.json, 'refresh_token') };
    },
    async stop() {
      await service.stop();
      await schema?.drop();
    },
  };
}

/** Opens a desk with one registered client. */
export async function openDeskWithClient(options: Partial<ServiceOptions> = {}): Promise<Desk & { clientId: string }> {
  const desk = await openDesk(options);
  return { ...desk, clientId: await mustRegister(desk.place) };
}
