import { field, list } from '../../support/json.js';
import type { Actor, Write } from './actor.js';
import { ROTATIONS_MAX } from './cryptography.js';
import type { HttpClient, Reply } from './http-client.js';
import { LiveReader } from './live-reader.js';
import type { Part, SessionLog } from './session-log.js';
import type { Claim, Stage } from './stage.js';

/** The service keeps records for a day of wall-clock time. Half of it leaves room for clock changes. */
const RECORDED_MS = 12 * 60 * 60 * 1000;
const SOCKETS_MAX = 3;

/** One operation of one actor over a separate connection. Resolves when its result is known. */
type Operation = (stage: Stage, actor: Actor, http: HttpClient) => Promise<void>;

interface Effect {
  /** Identifies this effect among all others. */
  readonly claim?: Claim;
  readonly write: Omit<Write, 'key'>;
  readonly session?: string;
}

/** Makes one write, checks that its answer matches the database, and records it for the final comparison. */
async function effect(stage: Stage, actor: Actor, http: HttpClient, wanted: Effect): Promise<Reply> {
  const { world, books } = stage;
  const write = { ...wanted.write, key: stage.name('key') };
  const floor = stage.acknowledged.get(wanted.session ?? '') ?? 0;
  world.trace(`${actor.handle} ${write.method} ${write.path} ${write.key}`);
  const reply = await actor.settle(http, write);
  world.count(reply.status < 300 ? 'ok' : `refused ${reply.status}`);
  if (reply.status < 300 || reply.status === 404 || reply.status === 409)
    stage.recorded.push({ actor, write, status: reply.status, text: reply.text, at: world.now });
  const { claim, session } = wanted;
  if (claim !== undefined && reply.status >= 300) claim.isRefused = true;
  if (claim !== undefined && reply.status < 300) {
    const [place] = books.found.get(claim.what) ?? [];
    if (place === undefined) world.violate(`${claim.what} was acknowledged and is not there`);
    const sequence = Number(field(reply.json, 'sequence'));
    if (session !== undefined && sequence > 0) {
      const told = `${session} ${sequence} ${field(reply.json, 'message_id')}`;
      if (place !== told) world.violate(`${claim.what} was acknowledged at ${told} and stands at ${place}`);
      if (sequence <= floor) world.violate(`${claim.what} has number ${sequence}, after ${floor} was acknowledged`);
      stage.acknowledged.set(session, Math.max(sequence, stage.acknowledged.get(session) ?? 0));
    }
  }
  return reply;
}

const json = (value: unknown): string => JSON.stringify(value);

function someHandles(stage: Stage): string[] {
  const count = stage.world.random.below(3);
  return Array.from({ length: count }, () => stage.world.random.pick(stage.actors).handle);
}

/** Picks mostly a session in which this can succeed, else one in which the actor takes part, else any. */
function someSession(stage: Stage, actor: Actor, fits: (log: SessionLog, part: Part) => boolean) {
  const all = [...stage.books.sessions];
  const own = all.filter(([, log]) => log.parts.has(actor.handle));
  const fitting = own.filter(([, log]) => fits(log, log.parts.get(actor.handle) as Part));
  const choices = [fitting, own, all].filter((list) => list.length > 0);
  const chosen = stage.world.chance(0.85) ? choices[0] : choices.at(-1);
  return chosen === undefined ? undefined : stage.world.random.pick(chosen);
}

const isTakingPart = ({ state }: SessionLog, { status }: Part): boolean => state === 'active' && status === 'joined';
const isInvited = ({ state }: SessionLog, { status }: Part): boolean => state === 'active' && status === 'invited';
const canReopen = ({ state }: SessionLog, { wasJoinedAtEnd }: Part): boolean => state === 'ended' && wasJoinedAtEnd;

const create: Operation = async (stage, actor, http) => {
  const topic = stage.name('topic');
  const says = stage.world.chance(0.3);
  const ends = says && stage.world.chance(0.2);
  const body = json({
    topic,
    invite: [...someHandles(stage), ...someHandles(stage)],
    ...(says && { initial_message: { content: stage.name('first') } }),
    ...(ends && { end_after_send: true }),
  });
  const claim = stage.claim(`topic ${topic}`);
  const reply = await effect(stage, actor, http, { claim, write: { method: 'POST', path: '/sessions', body } });
  const id = String(field(reply.json, 'session_id'));
  if (reply.status === 201 && stage.books.found.get(claim.what)?.[0] !== id)
    stage.world.violate(`${topic} was acknowledged as ${id}, and is ${stage.books.found.get(claim.what)?.[0]}`);
};

const send: Operation = async (stage, actor, http) => {
  const target = someSession(stage, actor, isTakingPart);
  if (target === undefined) return;
  const [session] = target;
  const content = stage.name('content');
  const pending = stage.uploads.get(actor) ?? [];
  const attachment = stage.world.chance(0.4) ? pending[stage.world.random.below(pending.length + 1)] : undefined;
  const parts = [
    { type: 'text', text: content },
    { type: 'file', attachment_id: attachment },
  ];
  const body = json({ content: attachment === undefined ? content : parts });
  const claim = stage.claim(`content ${content}`);
  const write = { method: 'POST', path: `/sessions/${session}/messages`, body };
  const reply = await effect(stage, actor, http, { claim, session, write });
  if (attachment === undefined || reply.status !== 201) return;
  stage.world.count('with attachment');
  if (stage.world.chance(0.8)) pending.splice(pending.indexOf(attachment), 1);
};

const upload: Operation = async (stage, actor, http) => {
  const filename = `${stage.name('file')}.txt`;
  const boundary = 'the-boundary';
  const head = `content-disposition: form-data; name="file"; filename="${filename}"\r\ncontent-type: text/plain`;
  const body = `--${boundary}\r\n${head}\r\n\r\n${'bytes '.repeat(1 + stage.world.random.below(40))}\r\n--${boundary}--\r\n`;
  const type = `multipart/form-data; boundary=${boundary}`;
  const claim = stage.claim(`file ${filename}`);
  const reply = await effect(stage, actor, http, {
    claim,
    write: { method: 'POST', path: '/attachments', body, type },
  });
  if (reply.status === 201)
    stage.uploads.set(actor, [...(stage.uploads.get(actor) ?? []), String(field(reply.json, 'id'))]);
};

/** Creates the operation of a verb whose success adds an event of this type about the caller. */
function verb(name: string, type: string, who: string, fits: typeof isTakingPart): Operation {
  return async (stage, actor, http) => {
    const target = someSession(stage, actor, fits);
    if (target === undefined) return;
    const [session, log] = target;
    const before = log.events.length;
    const wasThere = name === 'join' && log.parts.get(actor.handle)?.status === 'joined';
    const body = name === 'reopen' ? json({ invite: someHandles(stage) }) : undefined;
    const write = { method: 'POST', path: `/sessions/${session}/${name}`, body };
    const reply = await effect(stage, actor, http, { session, write });
    const isThere = log.events.slice(before).some((event) => {
      const payload: unknown = JSON.parse(event.payload);
      // An agent that reopens a session has joined it.
      const isReopening = name === 'join' && field(payload, 'reopened_by') === actor.handle;
      return isReopening || (event.type === type && field(payload, who) === actor.handle);
    });
    if (reply.status === 200 && !isThere && !wasThere)
      stage.world.violate(`${name} of ${actor.handle} was acknowledged, and nothing tells of it`);
  };
}

const invite: Operation = async (stage, actor, http) => {
  const target = someSession(stage, actor, isTakingPart);
  if (target === undefined) return;
  const [session, log] = target;
  const before = log.events.length;
  const write = { method: 'POST', path: `/sessions/${session}/invite`, body: json({ invite: someHandles(stage) }) };
  const reply = await effect(stage, actor, http, { session, write });
  if (reply.status !== 200) return;
  const invited = log.events.slice(before).map((event) => field(JSON.parse(event.payload), 'invitee'));
  for (const handle of list(reply.json, 'invited'))
    if (!invited.includes(handle)) stage.world.violate(`${handle} is said to be invited, and nothing tells of it`);
};

const block: Operation = async (stage, actor, http) => {
  const handle = stage.world.random.pick(stage.actors).handle;
  if (handle === actor.handle) return;
  await effect(stage, actor, http, { write: { method: 'POST', path: '/blocks', body: json({ handle }) } });
};

const unblock: Operation = async (stage, actor, http) => {
  const { handle } = stage.world.random.pick(stage.actors);
  await effect(stage, actor, http, { write: { method: 'DELETE', path: `/blocks/${handle}` } });
};

const allow: Operation = async (stage, actor, http) => {
  const { handle } = stage.world.random.pick(stage.actors);
  const write = stage.world.chance(0.6)
    ? { method: 'POST', path: '/agents/me/allowlist', body: json({ entries: [handle] }) }
    : { method: 'DELETE', path: `/agents/me/allowlist/${handle}` };
  await effect(stage, actor, http, { write });
};

/** Operator calls have no key and may take effect twice. */
const operate: Operation = async (stage, actor, http) => {
  const { world } = stage;
  const isRotation = stage.rotations < ROTATIONS_MAX && world.chance(0.3);
  if (isRotation) stage.rotations += 1;
  const headers = { authorization: `Bearer ${stage.operatorSecret}`, 'content-type': 'application/json' };
  const pause = {
    method: 'PATCH',
    path: `/operator/agents/${actor.handle}`,
    body: json({ paused: world.chance(0.5) }),
  };
  const call = isRotation ? { method: 'POST', path: '/operator/keys/rotate' } : pause;
  const reply = await http.call({ headers, ...call });
  if (reply?.status === 200) world.count(isRotation ? 'keys rotated' : 'paused or resumed');
};

/** Repeats an acknowledged call with its key. Expects the same bytes and no second effect. */
const repeat: Operation = async (stage, _actor, http) => {
  const known = stage.recorded.filter(({ at }) => Math.abs(stage.world.now - at) < RECORDED_MS);
  if (known.length === 0) return;
  const { actor, write, status, text } = stage.world.random.pick(known);
  const reply = await actor.settle(http, write);
  stage.world.count('repeated');
  if (reply.status === 429) return;
  if (reply.status !== status || reply.text !== text)
    stage.world.violate(`${write.key} was answered ${status} ${text}, and now ${reply.status} ${reply.text}`);
};

/** Checks that an agent reads what it may see at some moment between the request and the answer. */
const replay: Operation = async (stage, actor, http) => {
  const target = someSession(stage, actor, () => true);
  if (target === undefined) return;
  const [session, log] = target;
  const before = log.visibleTo(actor.handle)?.length;
  const count = log.events.length;
  const write = { method: 'GET', path: `/sessions/${session}/events?limit=1000`, key: '' };
  const reply = await actor.settle(http, write);
  stage.world.count('replayed');
  if (reply.status !== 200) return;
  const events = list(reply.json, 'events');
  for (const event of events)
    if (!log.couldSee(actor.handle, Number(field(event, 'sequence'))))
      stage.world.violate(`${actor.handle} read ${field(event, 'sequence')} of ${session}, which it was never to see`);
  const isQuiet = log.events.length === count;
  if (isQuiet && events.length !== before)
    stage.world.violate(`${actor.handle} read ${events.length} events of ${session}, and may see ${before}`);
};

const connect: Operation = async (stage, actor) => {
  const own = stage.readers.filter((reader) => reader.actor === actor && !reader.isOver);
  if (own.length >= SOCKETS_MAX) return stage.world.random.pick(own).cut();
  const reader = new LiveReader(stage, actor);
  stage.readers.push(reader);
  await reader.open();
};

const refresh: Operation = (_stage, actor) => actor.renew(actor.accessToken);

const revoke: Operation = async (stage, actor, http) => {
  const before = stage.readers.filter((reader) => reader.isOpen && reader.actor === actor);
  const family = await actor.revoke(http);
  if (family === undefined) return;
  stage.world.count('revoked');
  for (const reader of before) if (reader.grantId === family) stage.doomed.add(reader);
};

const reuse: Operation = (_stage, actor, http) => actor.reuse(http);

/** The weight of each operation. */
export const OPERATIONS: readonly (readonly [weight: number, Operation])[] = [
  [22, send],
  [8, create],
  [8, upload],
  [12, verb('join', 'session.joined', 'agent', isInvited)],
  [4, verb('leave', 'session.left', 'agent', isTakingPart)],
  [3, verb('end', 'session.ended', 'ended_by', isTakingPart)],
  [4, verb('reopen', 'session.reopened', 'reopened_by', canReopen)],
  [6, invite],
  [2, block],
  [2, unblock],
  [2, allow],
  [2, operate],
  [7, repeat],
  [5, replay],
  [10, connect],
  [2, refresh],
  [1, revoke],
  [1, reuse],
];
