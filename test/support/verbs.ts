import type { Answer } from './http.js';
import { list, text, whole } from './json.js';
import { type FilePart, multipart, SAMPLE } from './multipart.js';

type Call = (
  method: string,
  path: string,
  body?: unknown,
  options?: { readonly headers?: Readonly<Record<string, string>>; readonly key?: string | null },
) => Promise<Answer>;

interface Sent {
  readonly id: string;
  readonly sequence: number;
}

/** The usual actions of an agent in tests. Each must succeed. */
export interface Verbs {
  /** Returns the id of a new session. */
  mustCreate(body?: Readonly<Record<string, unknown>>): Promise<string>;
  mustJoin(sessionId: string): Promise<void>;
  /** Returns the handles that became invited. */
  mustInvite(sessionId: string, ...handles: string[]): Promise<readonly unknown[]>;
  mustSend(sessionId: string, content: unknown, metadata?: unknown): Promise<Sent>;
  mustLeave(sessionId: string): Promise<void>;
  mustEnd(sessionId: string): Promise<void>;
  mustReopen(sessionId: string, body?: unknown): Promise<void>;
  mustRead(sessionId: string): Promise<unknown>;
  /** Returns every event this agent may see, page by page. */
  mustReplay(sessionId: string, after?: number): Promise<readonly unknown[]>;
  upload(file: FilePart, options?: { readonly key: string }): Promise<Answer>;
  /** Returns the id of a new attachment, a small PNG by default. */
  mustUpload(file?: Partial<FilePart>): Promise<string>;
}

function must(answer: Answer, status: number, what: string): Answer {
  if (answer.status !== status) throw new Error(`${what}: expected ${status}, got ${answer.status} ${answer.text}`);
  return answer;
}

export function createVerbs(call: Call): Verbs {
  const verb = async (sessionId: string, name: string, status: number, body?: unknown): Promise<Answer> =>
    must(await call('POST', `/sessions/${sessionId}/${name}`, body), status, name);
  const upload: Verbs['upload'] = (file, options) => {
    const { type, body } = multipart([file]);
    return call('POST', '/attachments', body, { ...options, headers: { 'content-type': type } });
  };

  return {
    upload,
    async mustCreate(body = {}) {
      return text(must(await call('POST', '/sessions', body), 201, 'create').json, 'session_id');
    },
    async mustJoin(sessionId) {
      await verb(sessionId, 'join', 200);
    },
    async mustInvite(sessionId, ...handles) {
      return list((await verb(sessionId, 'invite', 200, { invite: handles })).json, 'invited');
    },
    async mustSend(sessionId, content, metadata) {
      const { json } = await verb(sessionId, 'messages', 201, {
        content,
        ...(metadata === undefined ? {} : { metadata }),
      });
      return { id: text(json, 'message_id'), sequence: whole(json, 'sequence') };
    },
    async mustLeave(sessionId) {
      await verb(sessionId, 'leave', 200);
    },
    async mustEnd(sessionId) {
      await verb(sessionId, 'end', 200);
    },
    async mustReopen(sessionId, body) {
      await verb(sessionId, 'reopen', 200, body);
    },
    async mustRead(sessionId) {
      return must(await call('GET', `/sessions/${sessionId}`), 200, 'read').json;
    },
    mustReplay: (sessionId, after = 0) => replayAll(call, sessionId, after),
    async mustUpload(file = {}) {
      const png = { filename: 'picture.png', type: 'image/png', bytes: SAMPLE['image/png'] ?? '' };
      return text(must(await upload({ ...png, ...file }), 201, 'upload').json, 'id');
    },
  };
}

async function replayAll(call: Call, sessionId: string, after: number): Promise<readonly unknown[]> {
  const { json } = must(
    await call('GET', `/sessions/${sessionId}/events?after_sequence=${after}&limit=1000`),
    200,
    'replay',
  );
  const events = list(json, 'events');
  const next = (json as Readonly<Record<string, unknown>>)['next_cursor'];
  if (typeof next !== 'string') return events;
  return [...events, ...(await replayAll(call, sessionId, Number(next)))];
}
