import { wait } from '../../../kit/clock.js';
import { toJsonLine } from '../../../kit/json-line.js';
import type { EventEnvelope } from '../../../wire/event.js';
import type { Context } from '../../context/context.js';
import { CliError } from '../../terminal/cli-error.js';
import { startEventCommand } from './event-command.js';
import type { PrintEvent } from './event-printer.js';

/** Runs `command` for each event; what it prints is passed on. */
export function createCommandRunner(context: Context, command: string): PrintEvent {
  const { streams, output, signal } = context;
  return async (event) => {
    const { stdout, ended } = startEventCommand(context, command, event, { signal });
    stdout.setEncoding('utf8');
    const passOn = (async () => {
      for await (const text of stdout) await streams.stdout.write(String(text));
    })();
    const [code] = await Promise.all([ended, passOn]);
    if (code !== 0) await output.note(`${event.event_id}: the command ended with exit ${code ?? 'by a signal'}.`);
  };
}

const TRIES = 5;
const FIRST_WAIT_MS = 500;

/** Posts each event to `url`, and prints it once it was taken. */
export function createForwarder(context: Context, url: string, print: PrintEvent): PrintEvent {
  return async (event) => {
    const transport = await context.transport();
    for (let attempt = 1; ; attempt += 1) {
      const status = await post(event, url, transport, context.signal);
      if (status !== undefined && status < 400) return print(event);
      const isFinal = status !== undefined && status < 500 && status !== 429 && status !== 408;
      if (isFinal || attempt === TRIES)
        throw new CliError('ASP_PARTIAL', {
          message: `${event.event_id} was not taken by ${new URL(url).origin}${status === undefined ? '' : ` (HTTP ${status})`}.`,
          outcome: 'applied',
          isRetryable: !isFinal,
        });
      await wait(context.clock, FIRST_WAIT_MS * 2 ** (attempt - 1), context.signal);
    }
  };
}

/** The status of the answer; undefined when there was none. */
async function post(
  event: EventEnvelope,
  url: string,
  transport: Awaited<ReturnType<Context['transport']>>,
  signal: AbortSignal,
): Promise<number | undefined> {
  const headers = { 'content-type': 'application/json', 'x-asp-event-id': event.event_id };
  try {
    return (await transport.send({ method: 'POST', url, headers, body: toJsonLine(event), signal })).status;
  } catch (error) {
    if (signal.aborted) throw error;
    return undefined;
  }
}
