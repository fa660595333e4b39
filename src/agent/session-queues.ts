/** Work in a session that must follow the earlier work there. */
export type Work = () => Promise<void>;

/** Asked before work begins. If the work has to wait, resolves to how long; other sessions continue in the meantime. */
export type Gate = () => Promise<{ readonly over: Promise<void> } | undefined>;

/** How much work happens at a time. */
export interface QueueLimits {
  /** How many sessions are handled at a time. */
  readonly concurrency: number;
  /** How much work may wait. */
  readonly capacity: number;
}

interface Item {
  readonly work: Work;
  readonly gate: Gate | undefined;
}

/** Work in many sessions: in order within each, several sessions at a time. */
export class SessionQueues {
  readonly #limits: QueueLimits;
  readonly #onFailure: (error: unknown) => void;
  /** The queue of each session; the first item is in progress. */
  readonly #waiting = new Map<string, Item[]>();
  readonly #ready: string[] = [];
  readonly #wakers = new Set<() => void>();
  #size = 0;
  #running = 0;
  #isStopped = false;
  #failure: { readonly error: unknown } | undefined;

  /** `onFailure` is called once, with the first failure; no new work begins after it. */
  constructor(limits: QueueLimits, onFailure: (error: unknown) => void) {
    this.#limits = limits;
    this.#onFailure = onFailure;
  }

  /** Resolves as soon as there is room for more: awaiting it slows the producer down instead of filling the memory. */
  async add(sessionId: string, work: Work, gate?: Gate): Promise<void> {
    const queue = this.#waiting.get(sessionId);
    if (queue === undefined) {
      this.#waiting.set(sessionId, [{ work, gate }]);
      this.#ready.push(sessionId);
    } else queue.push({ work, gate });
    this.#size += 1;
    this.#begin();
    await this.#until(() => this.#size < this.#limits.capacity || this.#isStopped);
  }

  /** Drops all work that has not begun. */
  stop(): void {
    this.#isStopped = true;
    this.#wakeAll();
  }

  /** Resolves when no work is in progress; rejects with the first failure of any work. */
  async settled(): Promise<void> {
    await this.#until(() => this.#running === 0 && (this.#isStopped || this.#size === 0));
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  /** Whether work is waiting or in progress there. */
  isBusy(sessionId: string): boolean {
    return this.#waiting.has(sessionId);
  }

  #begin(): void {
    while (this.#running < this.#limits.concurrency && !this.#isStopped) {
      const sessionId = this.#ready.shift();
      if (sessionId === undefined) return;
      this.#running += 1;
      void this.#serve(sessionId);
    }
  }

  async #serve(sessionId: string): Promise<void> {
    const queue = this.#waiting.get(sessionId) ?? [];
    let pause: Awaited<ReturnType<Gate>>;
    try {
      pause = await queue[0]?.gate?.();
      if (pause === undefined && !this.#isStopped) await queue[0]?.work();
    } catch (error) {
      this.#isStopped = true;
      if (this.#failure === undefined) this.#onFailure(error);
      this.#failure ??= { error };
    }
    this.#running -= 1;
    if (pause === undefined) {
      this.#size -= 1;
      queue.shift();
    } else
      void pause.over.then(() => {
        this.#ready.push(sessionId);
        this.#begin();
      });
    if (queue.length === 0) this.#waiting.delete(sessionId);
    else if (pause === undefined) this.#ready.push(sessionId);
    this.#begin();
    this.#wakeAll();
  }

  #wakeAll(): void {
    for (const wake of this.#wakers) wake();
    this.#wakers.clear();
  }

  async #until(isMet: () => boolean): Promise<void> {
    while (!isMet()) await new Promise<void>((resolve) => this.#wakers.add(resolve));
  }
}
