import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  changePicture,
  discardOrphans,
  getAttachment,
  sweepAttachments,
} from '../../../src/service/attachments/attachments.js';
import { receiveFile } from '../../../src/service/attachments/receive-upload.js';
import type { AgentActor } from '../../../src/service/core/context.js';
import { removeAgent } from '../../../src/service/messaging/remove-agent.js';
import { claimAttachments } from '../../../src/service/messaging/sessions.js';
import { findAccount } from '../../../src/service/store/accounts.js';
import { findAgent } from '../../../src/service/store/agents.js';
import { findAttachment } from '../../../src/service/store/attachments.js';
import { PENDING_ATTACHMENT_LIFETIME_S } from '../../../src/wire/limit.js';
import { drawPng } from '../../support/pictures.js';
import { must, openStage, type Stage } from '../sessions/stage.js';
import { codeOf, fileOf, upload } from './desk.js';

const HOUR_MS = PENDING_ATTACHMENT_LIFETIME_S * 1000;
const ROUNDS = 300;

let stage: Stage;
let alice: AgentActor;
let bob: AgentActor;
let session: string;

beforeEach(async () => {
  stage = await openStage();
  const [one, two] = [await stage.addAccount('alice'), await stage.addAccount('bob')];
  alice = await stage.addAgent(one, 'main', { inbound_policy: 'open' });
  bob = await stage.addAgent(two, 'main', { inbound_policy: 'open' });
  session = must(await stage.create(alice, { invite: [bob.handle] })).session_id;
});
afterEach(() => stage.close());

const part = (attachment_id: string) => ({ type: 'file' as const, attachment_id });
const send = (actor: AgentActor, ...ids: string[]) => stage.send(actor, session, { content: ids.map(part) });
const link = (actor: AgentActor, id: string) =>
  stage.read((query) => getAttachment(stage.context, actor, { path: { attachment_id: id } }, query));
const hasFile = async (id: string): Promise<boolean> => (await stage.context.files.list()).includes(id);
const rowOf = (id: string) => stage.read((query) => findAttachment(query, id));

describe('Attachments › referencing claims, in the same transaction, once', () => {
  it('fills in what the sender left out, and keeps the rest', async () => {
    const { id } = await upload(stage, alice, { filename: 'a.txt', bytes: 'four' });
    const named = { type: 'file' as const, attachment_id: (await upload(stage, alice)).id, name: 'n', size: 7 };
    const image = { type: 'image' as const, attachment_id: (await upload(stage, alice)).id };
    const url = { type: 'file' as const, url: 'https://h/x' };
    const content = await stage.write((transaction) =>
      claimAttachments(transaction, alice, session, 9, [part(id), named, image, url], stage.clock.now()),
    );
    expect(content).toEqual([
      { type: 'file', attachment_id: id, name: 'a.txt', mime_type: 'text/plain', size: 4 },
      { ...named, mime_type: 'text/plain' },
      { ...image, name: 'note.txt', mime_type: 'text/plain' },
      url,
    ]);
  });

  it('unknown, foreign, claimed and expired attachments are NOT_FOUND, and the message claims nothing else', async () => {
    const old = (await upload(stage, alice)).id;
    stage.clock.advance(HOUR_MS);
    const [free, claimed, foreign] = [await upload(stage, alice), await upload(stage, alice), await upload(stage, bob)];
    must(await send(alice, claimed.id));
    for (const bad of ['att_01ARZ3NDEKTSV4RRFFQ69G5FAV', foreign.id, claimed.id, old])
      expect(await send(alice, free.id, bad)).toEqual({ ok: false, code: 'NOT_FOUND' });
    expect(await rowOf(free.id)).toMatchObject({ session_id: null, sequence: null });
    must(await send(alice, free.id));
  });

  it('of many messages that name one attachment at once, one gets it', async () => {
    const { id } = await upload(stage, alice);
    const outcomes = await Promise.all(Array.from({ length: 32 }, () => send(alice, id)));
    expect(outcomes.filter((outcome) => outcome.ok)).toHaveLength(1);
    expect(await rowOf(id)).toMatchObject({ session_id: session });
  });
});

describe('Attachments › who may see one', () => {
  it('pending: its uploader only, for an hour', async () => {
    const { id } = await upload(stage, alice, { filename: 'a b.txt' });
    const now = stage.clock.now();
    expect(await link(alice, id)).toEqual({
      id,
      filename: 'a b.txt',
      content_type: 'text/plain',
      size: 5,
      url: expect.stringMatching(`^http://h/attachments/${id}\\?`),
      url_expires_at: now + 5 * 60_000,
    });
    expect(await codeOf(link(bob, id))).toBe('NOT_FOUND');
    stage.clock.advance(HOUR_MS);
    expect(await codeOf(link(alice, id))).toBe('NOT_FOUND');
  });

  it('attached: those who may see the message', async () => {
    const before = (await upload(stage, alice)).id;
    must(await send(alice, before));
    expect(await codeOf(link(bob, before))).toBe('NOT_FOUND');
    must(await stage.join(bob, session));
    expect(await codeOf(link(bob, before))).toBe('ok');
    must(await stage.leave(bob, session));
    const after = (await upload(stage, alice)).id;
    must(await send(alice, after));
    expect([await codeOf(link(bob, before)), await codeOf(link(bob, after))]).toEqual(['ok', 'NOT_FOUND']);
    must(await stage.invite(alice, session, [bob.handle]));
    expect([await codeOf(link(bob, before)), await codeOf(link(bob, after))]).toEqual(['NOT_FOUND', 'NOT_FOUND']);
    must(await stage.leave(alice, session));
    expect(await codeOf(link(alice, after))).toBe('ok');
  });

  it('the invitee of a one-shot session sees its only message, and so what is attached', async () => {
    const { id } = await upload(stage, alice);
    const other = (await upload(stage, alice)).id;
    must(
      await stage.create(alice, {
        invite: [bob.handle],
        initial_message: { content: [part(id)] },
        end_after_send: true,
      }),
    );
    must(await stage.create(alice, { invite: [bob.handle], initial_message: { content: [part(other)] } }));
    expect([await codeOf(link(bob, id)), await codeOf(link(bob, other))]).toEqual(['ok', 'NOT_FOUND']);
  });

  it('the invitee of a one-shot session still sees what is attached after many more invitations', async () => {
    const { id } = await upload(stage, alice);
    const { session_id: oneShot } = must(
      await stage.create(alice, {
        invite: [bob.handle],
        initial_message: { content: [part(id)] },
        end_after_send: true,
      }),
    );
    for (let again = 0; again < 12; again += 1) {
      must(await stage.reopen(alice, oneShot));
      must(await stage.end(alice, oneShot));
    }
    const [first] = await stage.eventsOf(bob, oneShot);
    expect(JSON.stringify(first)).toContain(id);
    expect(await codeOf(link(bob, id))).toBe('ok');
  });
});

describe('States › rule 4: pending for an hour, then gone', () => {
  it('the row and file go, but nothing that a message refers to', async () => {
    const [pending, claimed] = [await upload(stage, alice), await upload(stage, alice)];
    must(await send(alice, claimed.id));
    stage.clock.advance(HOUR_MS - 1);
    const young = await upload(stage, alice);
    await sweepAttachments(stage.context);
    expect(await hasFile(pending.id)).toBe(true);
    stage.clock.advance(1);
    await sweepAttachments(stage.context);
    expect([await hasFile(pending.id), await rowOf(pending.id)]).toEqual([false, undefined]);
    for (const { id } of [claimed, young]) {
      expect(await hasFile(id)).toBe(true);
      expect(await rowOf(id)).toBeDefined();
    }
  });

  it('a race between a message and the sweep never leaves a message without its file', async () => {
    let claims = 0;
    for (let round = 0; round < ROUNDS; round += 1) {
      const { id } = await upload(stage, alice);
      const lastMoment = stage.clock.now() + HOUR_MS - 1;
      stage.clock.advance(HOUR_MS);
      const claim = () =>
        codeOf(stage.write((transaction) => claimAttachments(transaction, alice, session, 1, [part(id)], lastMoment)));
      const sweep = () => codeOf(sweepAttachments(stage.context));
      const isClaimFirst = round % 3 !== 0;
      const outcomes = await Promise.all(isClaimFirst ? [claim(), sweep()] : [sweep(), claim()]);
      const isClaimed = outcomes[isClaimFirst ? 0 : 1] === 'ok';
      claims += isClaimed ? 1 : 0;
      expect([await hasFile(id), (await rowOf(id)) !== undefined]).toEqual([isClaimed, isClaimed]);
    }
    expect(claims).toBeGreaterThan(0);
    expect(claims).toBeLessThan(ROUNDS);
  });

  it('files without a row after a crash go to the trash after an hour, but those of running uploads stay', async () => {
    const crashed = await receiveFile(stage.context, fileOf());
    const unfinished = `att_${stage.context.ids.ulid()}`;
    await (await stage.context.files.create(unfinished)).close();
    // After a crash, no process holds these files.
    for (const id of [crashed.id, unfinished]) stage.context.files.release(id);
    const claimed = await upload(stage, alice);
    must(await send(alice, claimed.id));
    await discardOrphans(stage.context);
    expect(await hasFile(crashed.id)).toBe(true);
    stage.clock.advance(HOUR_MS);
    const running = await receiveFile(stage.context, fileOf());
    await discardOrphans(stage.context);
    stage.context.files.release(running.id);
    expect((await stage.context.files.list()).sort()).toEqual([claimed.id, running.id].sort());
    const trash = async () => (await stage.context.files.listTrash()).map(({ id }) => id).sort();
    expect(await trash()).toEqual([crashed.id, unfinished].sort());
    stage.clock.advance(7 * 24 * HOUR_MS - 1);
    await discardOrphans(stage.context);
    expect(await trash()).toEqual([crashed.id, unfinished, running.id].sort());
    stage.clock.advance(1);
    await discardOrphans(stage.context);
    expect(await trash()).toEqual([running.id]);
  });
});

describe('Pictures of agents', () => {
  const change = async (bytes: Buffer | undefined): Promise<string | undefined> => {
    const file = { filename: 'picture.png', type: 'image/png' };
    const staged = bytes && (await receiveFile(stage.context, { ...file, stream: Readable.from([bytes]) }));
    await stage.write((transaction) =>
      changePicture(stage.context, transaction, { id: alice.agentId, account_id: alice.accountId }, staged),
    );
    await staged?.release();
    return staged?.id;
  };
  const pictureOf = async () => (await stage.read((query) => findAgent(query, alice.agentId)))?.image_url;
  const used = async () => (await stage.read((query) => findAccount(query, alice.accountId)))?.attachment_bytes;
  const sweepLater = async (): Promise<void> => {
    stage.clock.advance(HOUR_MS);
    await sweepAttachments(stage.context);
  };

  it('stay as long as they are shown, and are swept when another one takes their place', async () => {
    const [first = '', second = ''] = [await change(drawPng(8, 8)), await change(drawPng(9, 9))];
    await sweepLater();
    expect([await hasFile(first), await hasFile(second), await pictureOf()]).toEqual([false, true, second]);
    expect(await used()).toBe(drawPng(9, 9).length);
    await change(undefined);
    await sweepLater();
    expect([await hasFile(second), await pictureOf(), await used()]).toEqual([false, null, 0]);
  });

  it('are swept after their agent was removed', async () => {
    const id = (await change(drawPng(8, 8))) ?? '';
    const path = { owner: 'alice', name: 'main' };
    const account = { kind: 'account', accountId: alice.accountId, scopes: [] } as const;
    await stage.write((transaction) => removeAgent(stage.context, account, { path }, transaction));
    await sweepLater();
    expect([await hasFile(id), await used()]).toEqual([false, 0]);
  });
});
