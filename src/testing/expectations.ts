import { systemClock } from '../kit/clock.js';
import { readMs } from '../kit/duration.js';
import { requireKnownOptions } from '../kit/suggest.js';
import { isEvent, isMessageEvent } from '../wire/event.js';
import { isHandle, toHandle } from '../wire/handle.js';
import { textPartsOf } from '../wire/message.js';
import type { EventEnvelope } from '../wire/schemas/event.js';
import type { Message } from '../wire/schemas/message.js';

/** A message that an agent of the service has sent. */
export type TestMessage = Message & {
  /** Its text parts, joined by line breaks. */
  readonly text: string;
};

/** The message that a test waits for. Everything that is left out matches. */
export interface MessageExpectation {
  /** Who sends it. */
  readonly from?: string | undefined;
  /** Who gets it: an agent that was invited to its session or has joined it. */
  readonly to?: string | undefined;
  readonly sessionId?: string | undefined;
  /** Text that it contains, a pattern of its text, or a function that returns whether it is the one. */
  readonly matching?: string | RegExp | ((message: TestMessage) => boolean) | undefined;
  /** How long to wait (default: `4s`, which is less than test runners give a test). */
  readonly timeout?: string | number | undefined;
}

/** What a service was sent, and which tests wait for more. */
export interface Expectations {
  /** Everything that happened since the start or the last reset. */
  list(): readonly EventEnvelope[];
  add(events: readonly EventEnvelope[]): void;
  /** Waits for a message, or finds it among those that no one has waited for yet. */
  expectMessage(expected?: MessageExpectation): Promise<TestMessage>;
  /** Forgets everything; tests that still wait fail for this reason. */
  clear(reason: string): void;
  /** The service was closed: tests that wait fail, now and later. */
  end(): void;
}

interface Sent {
  readonly message: TestMessage;
  readonly to: readonly string[];
  isFound: boolean;
}

interface Waiting {
  /** Whether it takes the message. */
  accepts(sent: Sent): boolean;
  fail(why: string): void;
}

const OPTIONS: Record<keyof Required<MessageExpectation>, true> = {
  from: true,
  to: true,
  sessionId: true,
  matching: true,
  timeout: true,
};
const DEFAULT_TIMEOUT = '4s';
const SHOWN_MAX = 10;
const SHOWN_CHARACTERS = 200;

/** Keeps what a service reports. */
export function createExpectations(): Expectations {
  let events: EventEnvelope[] = [];
  let sent: Sent[] = [];
  const members = new Map<string, Set<string>>();
  const waiting = new Set<Waiting>();
  let isOver = false;

  const membersOf = (sessionId: string): Set<string> => {
    const known = members.get(sessionId) ?? new Set();
    members.set(sessionId, known);
    return known;
  };
  const note = (event: EventEnvelope): void => {
    const known = membersOf(event.session_id);
    if (isEvent(event, 'session.invited')) known.add(event.payload.invitee).add(event.payload.by);
    if (isEvent(event, 'session.joined')) known.add(event.payload.agent);
    if (isEvent(event, 'session.left')) known.delete(event.payload.agent);
    if (!isMessageEvent(event)) return;
    const { payload } = event;
    known.add(payload.sender);
    const to = [...known].filter((handle) => handle !== payload.sender);
    const one: Sent = { message: { ...payload, text: textPartsOf(payload) }, to, isFound: false };
    sent.push(one);
    for (const each of waiting) if (each.accepts(one)) return;
  };
  const show = ({ message, to, isFound }: Sent): string => {
    const text = message.text.length > SHOWN_CHARACTERS ? `${message.text.slice(0, SHOWN_CHARACTERS)}…` : message.text;
    const about = isFound ? ' (an earlier expectMessage returned it)' : '';
    return `  ${message.sender} → ${to.join(', ') || 'no one'} in ${message.session_id}: ${JSON.stringify(text)}${about}`;
  };
  const whatCame = (): string => {
    if (sent.length === 0) return 'No message was sent at all.';
    const earlier = sent.length > SHOWN_MAX ? [`  … and ${sent.length - SHOWN_MAX} before them`] : [];
    return ['These messages were sent:', ...sent.slice(-SHOWN_MAX).map(show), ...earlier].join('\n');
  };

  const clear = (reason: string): void => {
    for (const each of [...waiting]) each.fail(`had arrived when ${reason}. ${whatCame()}`);
    events = [];
    sent = [];
    members.clear();
  };

  return {
    list: () => [...events],
    add(added) {
      for (const event of added) {
        events.push(event);
        note(event);
      }
    },
    expectMessage(expected = {}) {
      // The failure shows the line of the test that waited, not the timer.
      const here = new Error();
      return new Promise((resolve, reject) => {
        const { isMatch, description, timeoutMs } = readExpectation(expected);
        let cancel = (): void => {};
        const one: Waiting = {
          accepts(candidate) {
            if (candidate.isFound) return false;
            try {
              if (!isMatch(candidate)) return false;
              candidate.isFound = true;
              resolve(candidate.message);
            } catch (error) {
              reject(error);
            }
            cancel();
            return true;
          },
          fail(why) {
            cancel();
            here.message = `${description} ${why}`;
            here.stack = [`${here.name}: ${here.message}`, ...callersOf(here)].join('\n');
            reject(here);
          },
        };
        if (isOver) return one.fail('can come: this service was closed.');
        if (sent.some(one.accepts)) return;
        waiting.add(one);
        const late = systemClock.schedule(timeoutMs, () =>
          one.fail(`arrived within ${timeoutMs / 1000} s. ${whatCame()}`),
        );
        cancel = () => {
          waiting.delete(one);
          late();
        };
      });
    },
    clear,
    end() {
      clear('the service was closed');
      isOver = true;
    },
  };
}

/** The frames of the test: the first one is of this kit. */
function callersOf({ stack = '' }: Error): string[] {
  const frames = stack.split('\n').filter((line) => line.startsWith('    at '));
  return frames.slice(1);
}

function readExpectation(expected: MessageExpectation) {
  requireKnownOptions('expectMessage', expected, OPTIONS);
  const { matching, sessionId, timeout = DEFAULT_TIMEOUT } = expected;
  const [from, to] = [expected.from, expected.to].map((name) => (name === undefined ? undefined : readHandle(name)));
  const words = [
    'No message',
    ...(from === undefined ? [] : [`from ${from}`]),
    ...(to === undefined ? [] : [`to ${to}`]),
    ...(sessionId === undefined ? [] : [`in ${sessionId}`]),
    ...(matching === undefined ? [] : [describe(matching)]),
  ];
  return {
    timeoutMs: readMs('timeout', timeout),
    description: words.join(' '),
    isMatch: (candidate: Sent): boolean =>
      (from === undefined || candidate.message.sender === from) &&
      (to === undefined || candidate.to.includes(to)) &&
      (sessionId === undefined || candidate.message.session_id === sessionId) &&
      (matching === undefined || matches(matching, candidate.message)),
  };
}

function describe(matching: NonNullable<MessageExpectation['matching']>): string {
  if (typeof matching === 'function') return 'that the function accepts';
  return typeof matching === 'string' ? `with ${JSON.stringify(matching)}` : `that matches ${matching}`;
}

function matches(matching: NonNullable<MessageExpectation['matching']>, message: TestMessage): boolean {
  if (typeof matching === 'function') return matching(message);
  // A pattern with the flag g or y would remember where it stopped.
  return typeof matching === 'string' ? message.text.includes(matching) : message.text.search(matching) >= 0;
}

/** A handle with its `@`. */
export function readHandle(text: string): string {
  const handle = toHandle(text);
  if (isHandle(handle)) return handle;
  throw new TypeError(`'${text}' is not a handle: write the owner and the name in lower case, such as alice.bot.`);
}
