import { textWidth, wrapText } from '../../../kit/wrap.js';
import { errorRow, isErrorCode } from '../../../wire/error.js';
import type { Context } from '../../context/context.js';
import { exitCodeOf } from '../../context/describe-failure.js';
import { isOwnErrorCode, UsageError } from '../../errors.js';
import { suggest } from '../../suggest.js';
import { type Meaning, OAUTH_MEANING, OWN_MEANING, SERVICE_MEANING } from './meanings.js';

const CODES = [...Object.keys(SERVICE_MEANING), ...Object.keys(OWN_MEANING), ...Object.keys(OAUTH_MEANING)];

export function readCode(typed: string): string {
  const code = CODES.find((each) => each.toLowerCase() === typed.toLowerCase().replaceAll('-', '_'));
  if (code !== undefined) return code;
  const [near] = suggest(typed.toUpperCase(), CODES);
  throw new UsageError(`'${typed}' is not an error code.`, {
    why: near === undefined ? 'codes look like NOT_FOUND or ASP_TIMEOUT.' : `did you mean ${near}?`,
    next: near === undefined ? ['asp', 'help', 'exit-codes'] : ['asp', 'explain', near],
  });
}

/** What an error code means and what helps. */
export async function printMeaning(context: Context, code: string): Promise<void> {
  const row = isErrorCode(code) ? errorRow(code) : undefined;
  const { means, helps } = meaningOf(code);
  const document = {
    code,
    exit_code: exitCodeOf(code, undefined),
    http_status: row?.status ?? null,
    retry: row?.retry ?? null,
    means,
    helps,
  };
  const width = textWidth(context.streams.stdout);
  await context.output.document(document, (safe, style) =>
    [
      `${style.bold(safe.code)}  exit ${safe.exit_code}${safe.http_status === null ? '' : `, HTTP ${safe.http_status}`}`,
      wrapText(safe.means, width),
      wrapText(safe.helps, width),
    ].join('\n'),
  );
}

function meaningOf(code: string): Meaning {
  if (isErrorCode(code)) return SERVICE_MEANING[code];
  if (isOwnErrorCode(code)) return OWN_MEANING[code];
  const meaning = OAUTH_MEANING[code];
  if (meaning === undefined) throw new TypeError(`no meaning of ${code}`);
  return meaning;
}
