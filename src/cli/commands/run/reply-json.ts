import { createHash } from 'node:crypto';
import { resolve } from 'node:path';
import * as z from 'zod/mini';
import type { Incoming, Produced } from '../../../agent/answer.js';
import { persist } from '../../../agent/persist.js';
import type { FindRelation } from '../../../agent/relation.js';
import type { Upload } from '../../../client/client.js';
import { parseIfJson } from '../../../kit/parse-json.js';
import { stableKey } from '../../../kit/random.js';
import { isMessageEvent } from '../../../wire/event.js';
import {
  ATTACHMENT_MAX_BYTES,
  ATTACHMENTS_PER_MESSAGE_MAX,
  MESSAGE_BODY_MAX_BYTES,
  REPLAY_LIMIT_MAX,
} from '../../../wire/limit.js';
import { AWAITS_REPLY, ENDS_SESSION, FAILED, HOPS, IN_REPLY_TO, SENT_BY, toText } from '../../../wire/message.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import { describeIssue } from '../../../wire/schemas/issue.js';
import type { Message } from '../../../wire/schemas/message.js';
import { Content, JsonObject, type Part } from '../../../wire/schemas/requests.js';
import type { Context } from '../../context/context.js';
import { CliError } from '../../errors.js';
import { readNamedFile } from '../../input.js';
import { partTypeOf, prepareUpload } from '../attachment/transfer.js';
import { toShownText } from './line-process.js';
import { describeMessage } from './run-command.js';

/** All earlier messages in the input of one message, as JSON; the oldest ones are left out. */
const RECENT_MAX_BYTES = 1024 * 1024;
/** This many events are searched for earlier messages. */
const RECENT_EVENTS_MAX = 2_000;
/** This many events are read at first, and then twice as many each time. */
const RECENT_WINDOW = 50;

/** Members of metadata that only `asp` sets, so that they are true; a command may have copied them from the message. */
const OWN_MEMBERS = [AWAITS_REPLY, ENDS_SESSION, FAILED, HOPS, IN_REPLY_TO, SENT_BY];

/** A reply as JSON: what the body of a message can be, and what only `asp` can do. */
const ReplyJson = z.strictObject({
  content: z.optional(z.union([z.literal(''), Content])),
  /** Paths of files, which are uploaded and follow the content. */
  files: z.optional(z.array(z.string().check(z.minLength(1))).check(z.maxLength(ATTACHMENTS_PER_MESSAGE_MAX))),
  metadata: z.optional(JsonObject),
  /** Whether the session ends after the reply. */
  end: z.optional(z.boolean()),
  /** Why the message could not be processed. */
  error: z.optional(z.string().check(z.minLength(1))),
});

/** The last messages before an event, oldest first, at most `count`. */
type ReadRecent = (event: Incoming, count: number, signal: AbortSignal) => Promise<readonly Message[]>;

/** Makes the part for a file that a reply names. @throws CliError if the file cannot be sent */
type AttachFile = (event: Incoming, path: string, signal: AbortSignal) => Promise<Part>;

/** How the JSON of a command is completed: in a run from the service, in a replay from the recording. */
export interface JsonSources {
  readonly findRelation: FindRelation;
  readonly readRecent: ReadRecent;
  readonly attach: AttachFile;
}

/** The result of a handler before its attempts are counted. */
export type Once =
  | Omit<Extract<Produced, { kind: 'printed' }>, 'tries'>
  | Omit<Extract<Produced, { kind: 'failed' }>, 'tries'>;

/** What a command gets and answers as JSON. */
export interface JsonExchange {
  /** The event with what it does not say itself: the attempt, the sender's relation, `recent` earlier messages. */
  describe(
    event: Incoming,
    about: { readonly attempt: number; readonly recent: number },
    signal: AbortSignal,
  ): Promise<EventEnvelope>;
  /** The reply in a JSON text; nothing is sent for a blank one. */
  readText(event: Incoming, text: string, exitCode: number | null, signal: AbortSignal): Promise<Once>;
  /** The reply in a JSON value, with its files. */
  read(event: Incoming, value: unknown, exitCode: number | null, signal: AbortSignal): Promise<Once>;
}

export function createExchange({ findRelation, readRecent, attach }: JsonSources): JsonExchange {
  const failed = (exitCode: number | null, why: string): Once => ({ kind: 'failed', exitCode, why });
  const exchange: JsonExchange = {
    async describe(event, { attempt, recent }, signal) {
      const earlier = recent === 0 ? [] : await readRecent(event, recent, signal);
      return describeMessage(event, attempt, findRelation, earlier);
    },
    async readText(event, text, exitCode, signal) {
      if (text.trim() === '') return { kind: 'printed', exitCode, text: '' };
      const value = parseIfJson(text);
      if (value === undefined) return failed(exitCode, 'the output of the command is not JSON');
      return exchange.read(event, value, exitCode, signal);
    },
    async read(event, value, exitCode, signal) {
      const { success, data, error } = ReplyJson.safeParse(value);
      if (!success) {
        const [issue] = error.issues;
        const why = issue === undefined ? 'It is not valid.' : describeIssue(issue, 'The reply');
        return failed(exitCode, `the reply is not valid: ${why.replace(/\.$/, '')}`);
      }
      if (data.error !== undefined) return failed(exitCode, toShownText(data.error));
      const { files = [], end = false } = data;
      const metadata =
        data.metadata &&
        Object.fromEntries(Object.entries(data.metadata).filter(([name]) => !OWN_MEMBERS.includes(name)));
      const content = typeof data.content === 'string' && data.content.trim() === '' ? undefined : data.content;
      const size = Buffer.byteLength(JSON.stringify({ content, metadata }));
      if (size > MESSAGE_BODY_MAX_BYTES)
        return failed(exitCode, `the reply is larger than ${MESSAGE_BODY_MAX_BYTES / 1024} KiB`);
      const rest = { metadata, ...(end && { ends: true }) };
      if (files.length === 0) {
        if (content === undefined) return { kind: 'printed', exitCode, text: '', ...rest };
        return { kind: 'printed', exitCode, text: toText(content), content, ...rest };
      }
      const parts: Part[] = typeof content === 'string' ? [{ type: 'text', text: content }] : [...(content ?? [])];
      // The same answer with the same files is a repetition, whatever their ids.
      const text = JSON.stringify([...parts, ...files]);
      try {
        for (const path of files) parts.push(await attach(event, path, signal));
      } catch (error) {
        if (!(error instanceof CliError) || signal.aborted) throw error;
        return failed(exitCode, error.message.replace(/\.$/, ''));
      }
      return { kind: 'printed', exitCode, text, content: parts, ...rest };
    },
  };
  return exchange;
}

/** A file of a reply, read whole and checked, so that it cannot change while it is uploaded. */
export async function readFile(context: Context, path: string): Promise<Upload & { readonly bytes: Buffer }> {
  const full = resolve(context.machine.workingDirectory, path);
  const upload = await prepareUpload(context, full, { filename: undefined, isAsText: true });
  const bytes = await readNamedFile(full, ATTACHMENT_MAX_BYTES);
  return {
    ...upload,
    size: bytes.byteLength,
    bytes,
    async *open() {
      yield bytes;
    },
  };
}

/** Uploads files and reads earlier messages as the agent; while the service is down, it waits. */
export function serviceSources(context: Context, me: string, findRelation: FindRelation): JsonSources {
  return {
    findRelation,
    async attach(event, path, signal) {
      const file = await readFile(context, path);
      const client = await context.client();
      // A repetition after a kill finds the upload of the same bytes.
      const hash = createHash('sha256').update(file.bytes).digest('hex');
      const idempotencyKey = stableKey(me, 'POST /attachments', `reply:${event.event_id}:${file.filename}:${hash}`);
      const sent = await persist(context, signal, () => client.upload(file, { idempotencyKey, signal }));
      if (sent.kind === 'done') return { type: partTypeOf(file), attachment_id: sent.reply.reply.id };
      throw new CliError('ASP_PARTIAL', { message: `${file.filename} was refused: ${sent.error.code}` });
    },
    async readRecent(event, count, signal) {
      // The message of an invitation comes before its session.
      if (event.sequence !== event.payload.sequence) return [];
      const client = await context.client();
      const path = { session_id: event.session_id };
      const first = Math.max(0, event.sequence - 1 - RECENT_EVENTS_MAX);
      let messages: readonly Message[] = [];
      let total = 0;
      let window = RECENT_WINDOW;
      for (let to = event.sequence - 1; to > first && total < count && messages.length === total; ) {
        const begin = Math.max(first, to - window);
        let earlier: readonly Message[] = [];
        // A page may hold fewer events than it could.
        for (let after = begin; after < to; ) {
          const query = { after_sequence: after, limit: to - after };
          const found = await persist(context, signal, () => client.call('replayEvents', { path, query, signal }));
          if (found.kind === 'refused') return [];
          const { events, next_cursor: next } = found.reply.reply;
          const within = events.filter(({ sequence }) => sequence <= to);
          const more = within.filter(isMessageEvent).map(({ payload }) => payload);
          total += more.length;
          earlier = keepLast([...earlier, ...more], count);
          after = next === null ? to : (within.at(-1)?.sequence ?? to);
        }
        messages = keepLast([...earlier, ...messages], count);
        to = begin;
        window = Math.min(2 * window, REPLAY_LIMIT_MAX);
      }
      return messages;
    },
  };
}

/** The last messages, within the limit in bytes. */
export function keepLast(messages: readonly Message[], count: number): readonly Message[] {
  const kept: Message[] = [];
  let size = 0;
  for (const message of messages.slice(-count).reverse()) {
    size += Buffer.byteLength(JSON.stringify(message));
    if (size > RECENT_MAX_BYTES) break;
    kept.unshift(message);
  }
  return kept;
}
