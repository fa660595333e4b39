import { toJsonLine } from '../../../kit/json-line.js';
import type { ServiceOptions } from '../../../service/service.js';
import type { Context } from '../../context/context.js';
import { sanitizeLine } from '../../terminal/sanitize.js';

type LogContext = Pick<Context, 'clock' | 'streams' | 'output'>;
type Log = NonNullable<ServiceOptions['log']>;
type Fields = Readonly<Record<string, string | number | boolean>>;

/** What no line may show, should it ever stand in the text of an error: tokens, codes, secrets and signatures. */
const SECRETS: readonly (readonly [what: RegExp, instead: string])[] = [
  [/\beyJ[\w-]+\.[\w-]*(?:\.[\w-]*)?/g, '[token]'],
  [/\b(Bearer|Basic) +[\w\-.~+/]+=*/gi, '$1 [hidden]'],
  [
    /\b(code|code_verifier|refresh_token|access_token|client_secret|password|signature|token)=[^&\s"']+/gi,
    '$1=[hidden]',
  ],
  [/(\/\/[^/\s:@]*):[^/\s@]+@/g, '$1:[hidden]@'],
];

/** What the service has to say, on stderr, one line an event; `errors` says faults alone, as notes for whoever looks on. */
export function createServiceLog(context: LogContext, format: 'errors' | 'text' | 'json'): Log {
  if (format === 'errors') return createNotes(context);
  const write = (level: string, event: string, fields: Fields): void => {
    const time = new Date(context.clock.now()).toISOString();
    const line =
      format === 'json'
        ? redact(toJsonLine({ time, level, event, ...fields }))
        : sanitizeLine(
            redact(
              [
                time,
                level,
                event,
                ...Object.entries(fields)
                  .filter(([name]) => name !== 'stack')
                  .map(pair),
              ].join(' '),
            ),
          );
    // Whoever does not read its log shall not bring the service down.
    context.streams.stderr.write(`${line}\n`).catch(() => {});
  };
  return {
    info: (event, fields = {}) => write('info', event, fields),
    error: (event, error, fields = {}) => write('error', event, { ...fields, ...factsOf(error) }),
  };
}

function createNotes({ output }: LogContext): Log {
  return {
    info: (event, fields) => void output.detail(redact(`${event} ${toJsonLine(fields ?? {})}`)).catch(() => {}),
    error: (event, error) =>
      void output.note(redact(`${event}: ${error instanceof Error ? error.message : ''}`)).catch(() => {}),
  };
}

function factsOf(error: unknown): Fields {
  if (!(error instanceof Error)) return { error: String(error) };
  const cause = error.cause instanceof Error ? { cause: `${error.cause.name}: ${error.cause.message}` } : {};
  return { error: `${error.name}: ${error.message}`, ...cause, stack: error.stack ?? '' };
}

function pair([name, value]: [string, string | number | boolean]): string {
  const text = String(value);
  return `${name}=${/[\s"=]/.test(text) ? JSON.stringify(text) : text}`;
}

function redact(line: string): string {
  return SECRETS.reduce((text, [what, instead]) => text.replace(what, instead), line);
}
