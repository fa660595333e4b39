import type { Socket } from 'node:net';
import { WebSocket } from 'ws';

import { field } from '../../support/json.js';
import type { Actor } from './actor.js';
import type { Link } from './link.js';
import { ADDRESSES } from './process.js';
import type { Stage } from './stage.js';

/** A socket of an agent, and the events received over it. */
export class LiveReader {
  readonly actor: Actor;
  readonly grantId: string;
  isOpen = false;
  isOver = false;
  readonly #stage: Stage;
  readonly #last = new Map<string, number>();
  readonly #received = new Set<string>();
  /** The last event of each session when it opened. */
  readonly #before = new Map<string, number>();
  #link: Link | undefined;

  constructor(stage: Stage, actor: Actor) {
    this.#stage = stage;
    this.actor = actor;
    this.grantId = actor.grantId;
  }

  /** Resolves when the handshake ends, whether it succeeds or fails. */
  async open(): Promise<void> {
    const link = this.#stage.connect();
    if (link === undefined) {
      this.isOver = true;
      return;
    }
    this.#link = link;
    const used = this.actor.accessToken;
    const socket = new WebSocket(ADDRESSES.wsUrl, {
      headers: { authorization: `Bearer ${used}` },
      perMessageDeflate: false,
      // Any stream works, but the types of ws accept only sockets.
      createConnection: () => link.client as unknown as Socket,
    });
    let status = 0;
    socket.on('message', (data) => this.#receive(String(data)));
    socket.on('unexpected-response', (_request, response) => {
      status = response.statusCode ?? 0;
      link.client.destroy();
    });
    socket.on('error', () => {});
    await new Promise<void>((resolve) => {
      socket.on('open', () => {
        this.isOpen = true;
        for (const [session, { events }] of this.#stage.books.sessions) this.#before.set(session, events.length);
        resolve();
      });
      const onOver = (): void => {
        this.isOpen = false;
        this.isOver = true;
        resolve();
      };
      socket.on('close', onOver);
      link.client.on('close', onOver);
    });
    this.#stage.world.trace(`${this.actor.handle} socket ${this.isOpen ? 'open' : `refused ${status}`}`);
    if (status === 401) await this.actor.renew(used);
  }

  /** The events that happened while it was open and did not arrive, of those that the agent could see. */
  listMissing(): string[] {
    return [...this.#stage.books.sessions].flatMap(([session, log]) =>
      log
        .owedTo(this.actor.handle)
        .filter((sequence) => sequence > (this.#before.get(session) ?? 0))
        .map((sequence) => `${session} ${sequence}`)
        .filter((event) => !this.#received.has(event)),
    );
  }

  /** Breaks the connection and drops all undelivered data. */
  cut(): void {
    this.#link?.cut();
  }

  #receive(frame: string): void {
    const { world, books } = this.#stage;
    const event: unknown = JSON.parse(frame);
    const [session, sequence] = [String(field(event, 'session_id')), Number(field(event, 'sequence'))];
    const { handle } = this.actor;
    const what = `${handle} received ${session} ${sequence}`;
    world.trace(what);
    world.count('delivered');
    const log = books.sessions.get(session);
    const logged = log?.events[sequence - 1];
    if (logged === undefined || log === undefined) {
      world.violate(`${what}, which is in no log`);
      return;
    }
    const isSame =
      logged.id === field(event, 'event_id') &&
      logged.type === field(event, 'type') &&
      logged.payload === JSON.stringify(field(event, 'payload'));
    if (!isSame) world.violate(`${what}, which is another one in the log`);
    if (!log.couldSee(handle, sequence)) world.violate(`${what}, which it was never to see`);
    if (sequence <= (this.#last.get(session) ?? 0)) world.violate(`${what} after ${this.#last.get(session)}`);
    this.#last.set(session, sequence);
    this.#received.add(`${session} ${sequence}`);
    this.#stage.delivered(handle, session).add(sequence);
  }
}
