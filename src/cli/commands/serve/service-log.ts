import { constants, createWriteStream, openSync } from 'node:fs';

import { toJsonLine } from '../../../kit/json-line.js';
import type { ServiceOptions } from '../../../service/service.js';
import type { Context } from '../../context/context.js';
import { CliError } from '../../errors.js';
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
export function createServiceLog(
  context: LogContext,
  format: 'errors' | 'text' | 'json',
  securityFile?: string | undefined,
): Log {
  const log = format === 'errors' ? createNotes(context) : createLines(context, format);
  return securityFile === undefined ? log : { ...log, security: openSecurityLog(context, securityFile) };
}

/** One JSON line an event, at the end of a file that its owner alone can read. */
function openSecurityLog({ clock, output }: LogContext, path: string): NonNullable<Log['security']> {
  const file = createWriteStream(path, { fd: openForAppending(path) });
  file.on('error', (error) => void output.note(`The security log cannot be written: ${error.message}`).catch(() => {}));
  return (event, fields) => {
    const time = new Date(clock.now()).toISOString();
    file.write(`${redact(toJsonLine({ time, level: 'security', event, ...fields }))}\n`);
  };
}

function openForAppending(path: string): number {
  try {
    const { O_APPEND, O_CREAT, O_NOFOLLOW = 0, O_WRONLY } = constants;
    return openSync(path, O_APPEND | O_CREAT | O_WRONLY | O_NOFOLLOW, 0o600);
  } catch (error) {
    throw new CliError('ASP_CONFIG', { message: `The security log ${path} cannot be opened.`, cause: error });
  }
}

function createLines(context: LogContext, format: 'text' | 'json'): Log {
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
    security: (event, fields) => write('security', event, fields),
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
