import type { FastifyReply, FastifyRequest } from 'fastify';
import { type OwnRateLimitName, REQUEST_WAIT_MAX_MS } from '../../../wire/limit.js';
import type { ServiceContext } from '../../core/context.js';
import { hasCode } from '../../core/errors.js';
import { createSemaphore } from '../../core/semaphore.js';
import { toNetwork } from '../../oauth/attempts.js';
import { type AuthorizationServer, takeForAddress } from '../../oauth/server.js';
import { describeDuration } from '../form.js';
import { sendErrorPage } from '../layout.js';

/** Pages that one viewer gets at the same time; the others wait. */
const AT_ONCE = { max: 2, waitingMax: 200, refusal: 'Too many pages are being opened.' } as const;

/** The limits of pages for people who are not signed in. */
type StrangerLimit = Extract<OwnRateLimitName, 'viewAgentPage' | 'viewSharedSession'>;

/**
 * Limits what one viewer may have rendered. A page of strangers' Markdown and code takes a hundred times as long as
 * reading its data, and everyone else waits in the meantime.
 */
export interface PageBounds {
  /** Reads and renders a page for an account. */
  forAccount<T>(accountId: string, work: () => Promise<T>): Promise<T>;
  /** The same for someone who is not signed in. */
  forStranger<T>(limit: StrangerLimit, request: FastifyRequest, work: () => Promise<T>): Promise<T>;
  /** Reads news for an open page of an account. The page asks every few seconds, so only news that it renders counts. */
  forNews<T>(accountId: string, work: (mustRender: () => Promise<void>) => Promise<T>): Promise<T>;
  /** The same texts of a page that is rendered while it is sent, each as soon as the account may have another page. */
  inTurn(accountId: string, texts: AsyncIterable<string>): AsyncIterable<string>;
}

export function createPageBounds(context: Pick<ServiceContext, 'clock' | 'limits' | 'settings'>): PageBounds {
  const { clock, limits } = context;
  const viewers = createSemaphore({ ...AT_ONCE, patience: { clock, maxMs: REQUEST_WAIT_MAX_MS } });
  const take = (accountId: string): Promise<void> => limits.take('viewPage', accountId);
  return {
    async forAccount(accountId, work) {
      await take(accountId);
      return viewers.use(accountId, work);
    },
    async forStranger(limit, request, work) {
      await takeForAddress(context, limit, request);
      return viewers.use(toNetwork(request.ip), work);
    },
    forNews: (accountId, work) => viewers.use(accountId, () => work(() => take(accountId))),
    async *inTurn(accountId, texts) {
      const source = texts[Symbol.asyncIterator]();
      try {
        while (true) {
          const next = await viewers.use(accountId, () => source.next());
          if (next.done === true) return;
          yield next.value;
        }
      } finally {
        await source.return?.();
      }
    },
  };
}

/** Answers someone who may not be signed in, or says that they have opened too many pages. */
export async function answerStranger(
  { context }: AuthorizationServer,
  bounds: PageBounds,
  { limit, request, reply }: { limit: StrangerLimit; request: FastifyRequest; reply: FastifyReply },
  work: () => Promise<FastifyReply>,
): Promise<FastifyReply> {
  try {
    return await bounds.forStranger(limit, request, work);
  } catch (error) {
    if (!hasCode(error, 'RATE_LIMITED')) throw error;
    const waitS = error.options.retryAfterS ?? 1;
    return sendErrorPage(reply.header('retry-after', String(waitS)), context, error.status, {
      title: 'Too many pages',
      message: `You opened too many pages. Try again in ${describeDuration(waitS)}.`,
      code: error.code,
    });
  }
}
