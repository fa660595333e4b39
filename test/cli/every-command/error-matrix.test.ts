import { existsSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type * as z from 'zod/mini';
import { loadCommands } from '../../../src/cli/command.js';
import { COMMAND_OUTPUT, OBJECT } from '../../../src/cli/commands/schema/output-shapes.js';
import { PROGRAM } from '../../../src/cli/program.js';
import { ENDPOINT } from '../../../src/wire/endpoint.js';
import { OPERATOR_ENDPOINT } from '../../../src/wire/schemas/operator.js';
import type { Refusal } from '../../support/canned-service.js';
import type { Ran } from '../captured-run.js';
import { CASES, type Case, type Cell, COLUMNS, type Column, ELSEWHERE } from './cases.js';
import { type Stage, startStage } from './stage.js';

const { commands: COMMANDS } = await loadCommands(PROGRAM);

/** The refusal in each column. */
const REFUSAL: Partial<Record<Column, Refusal>> = {
  '400': { status: 400, code: 'VALIDATION_ERROR', oauthError: 'invalid_request' },
  '401': { status: 401, code: 'UNAUTHORIZED', oauthError: 'invalid_client' },
  '403': { status: 403, code: 'FORBIDDEN', oauthError: 'invalid_scope' },
  '404': { status: 404, code: 'NOT_FOUND' },
  '409': { status: 409, code: 'DUPLICATE_HANDLE' },
  '429': { status: 429, code: 'RATE_LIMITED', oauthError: 'temporarily_unavailable', headers: { 'retry-after': '7' } },
  '500': { status: 500, code: 'INTERNAL_ERROR', oauthError: 'server_error' },
};
const EXIT: Record<Column, number> = {
  ok: 0,
  '400': 2,
  '401': 4,
  '403': 5,
  '404': 3,
  '409': 6,
  '429': 7,
  '500': 9,
  'no network': 9,
};

function expectedCell(one: Case, column: Column): Cell {
  const said = one.cells?.[column];
  if (said !== undefined) return said;
  if (one.asks === 'nobody' || column === 'ok') return { exit: 0 };
  const refusal = REFUSAL[column];
  const code = one.asks === 'the sign-in' ? refusal?.oauthError : refusal?.code;
  return { exit: EXIT[column], code: code ?? 'ASP_UNREACHABLE' };
}

interface Told {
  error: {
    code: string;
    message: string;
    exit_code: number;
    retryable: boolean;
    outcome: string;
    http_status?: number;
    request?: { method: string };
  };
}

const lines = (text: string): string[] => text.split('\n').slice(0, -1);

/** With `--json`, stderr contains lines of JSON. After a failure it is a single line. */
function checkJsonFailure({ code, err }: Ran, cell: Cell, column: Column): void {
  if (cell.exit === 0) {
    const told = lines(err).filter((line) => !isForAPerson(line));
    for (const line of told) expect(OBJECT.note.safeParse(JSON.parse(line)).error).toBeUndefined();
    return;
  }
  expect(lines(err), err).toHaveLength(1);
  expect(err.endsWith('\n')).toBe(true);
  const told = JSON.parse(err) as Told;
  expect(OBJECT.error.safeParse(told).error).toBeUndefined();
  const { error } = told;
  expect(error).toMatchObject({ code: cell.code, exit_code: code });
  expect(error.message).toMatch(/\S.*[.!?]$/);
  if (
    ['RATE_LIMITED', 'INTERNAL_ERROR', 'ASP_UNREACHABLE', 'temporarily_unavailable', 'server_error'].includes(
      error.code,
    )
  )
    expect(error.retryable).toBe(true);
  if (['400', '401', '403', '404', '409'].includes(column))
    expect(error).toMatchObject({ retryable: false, outcome: 'not_applied' });
}

/** Matches the plain text that shows a sign-in address. */
const isForAPerson = (line: string): boolean => /^(Open this address.*| {2}http:.*|)$/.test(line);

/** Without `--json`, an error has at most four lines. The last one contains the code. */
function checkHumanFailure({ err }: Ran, cell: Cell): void {
  if (cell.exit === 0) {
    expect(err).not.toMatch(/^error:/m);
    return;
  }
  const told = lines(err.slice(err.indexOf('error: ')));
  expect(told.length).toBeLessThanOrEqual(4);
  expect(told.at(-1)).toBe(`  code: ${cell.code} · exit ${cell.exit}`);
}

/** stdout has one document with `--json`, and lines with `--jsonl` or for a stream. It may be empty after a failure. */
function checkData(ran: Ran, isWhole: boolean, isEmptyAllowed: boolean): unknown[] {
  if (ran.out === '') {
    expect(isEmptyAllowed).toBe(true);
    return [];
  }
  expect(ran.out.endsWith('\n')).toBe(true);
  const documents = lines(ran.out).map((line) => JSON.parse(line) as unknown);
  if (isWhole) expect(documents).toHaveLength(1);
  return documents;
}

const STREAMS = ['session tail', 'session events', 'replay'];
const commands = COMMANDS.map(({ path }) => path);

describe('the table of cases', () => {
  it('has every command, and no other', () => {
    const tested = [...Object.keys(CASES), ...Object.keys(ELSEWHERE)];
    const forgotten = commands.filter((path) => !tested.includes(path));
    expect(forgotten, 'add them to CASES in test/cli/every-command/cases.ts').toEqual([]);
    expect(tested.sort()).toEqual([...commands].sort());
    for (const reason of Object.values(ELSEWHERE)) expect(existsSync(reason.split(': ')[1] ?? ''), reason).toBe(true);
  });

  it('says why wherever a cell differs from the table of exit codes', () => {
    for (const one of Object.values(CASES).flat())
      expect(one.cells === undefined, one.line).toBe(one.because === undefined);
  });
});

describe.each(COLUMNS)('what a command says when the service answers: %s', (column) => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await startStage();
    if (column === 'no network') await stage.service.close();
  });
  afterAll(() => (column === 'no network' ? undefined : stage.close()));

  const runCase = (one: Case, more: readonly string[]): Promise<Ran> => {
    const refusal = REFUSAL[column];
    stage.service.refusal = refusal && { ...refusal, isEverything: one.isEverythingRefused === true };
    return stage.run(one, more);
  };

  for (const [command, cases] of Object.entries(CASES))
    it(`asp ${command}`, async () => {
      for (const one of cases) {
        if (column === 'ok' && one.isEndless === true) continue;
        const cell = expectedCell(one, column);
        const isStream = STREAMS.includes(command);
        for (const format of column === 'ok' ? ['--json', '--jsonl'] : ['--json']) {
          const ran = await runCase(one, [format]);
          expect({ line: one.line, exit: ran.code, err: ran.code === cell.exit ? '' : ran.err }).toEqual({
            line: one.line,
            exit: cell.exit,
            err: '',
          });
          checkJsonFailure(ran, cell, column);
          const documents = checkData(ran, format === '--json' && !isStream, cell.exit !== 0 || format === '--jsonl');
          if (column === 'ok' || cell.exit < 2) checkShape(command, one, format, documents);
          checkAsked(one, column, stage.service.received);
          if (column === '500' && cell.exit > 1) checkOutcome(ran, stage.service.received.at(-1) ?? '');
        }
        const human = await runCase(one, []);
        expect(human.code, one.line).toBe(cell.exit);
        checkHumanFailure(human, cell);
      }
    });
});

/** Checks the output against `asp schema`. With `--jsonl`, each line is one item of a list. */
function checkShape(command: string, one: Case, format: string, documents: readonly unknown[]): void {
  if (one.isFree === true) return;
  const schemas: Record<string, z.ZodMiniType> = { ...COMMAND_OUTPUT, ...OBJECT };
  const schema = schemas[one.object ?? command];
  expect(schema, `a schema of ${one.object ?? command}`).toBeDefined();
  for (const document of documents) {
    const isItem = format === '--jsonl' && schema?.safeParse({ items: [], next_cursor: null }).success === true;
    const checked = isItem ? { items: [document], next_cursor: null } : document;
    expect(schema?.safeParse(checked).error, `${one.line} ${format}: ${JSON.stringify(document)}`).toBeUndefined();
  }
}

/** After a server error, the outcome of a write is unknown. A read was not applied. */
function checkOutcome({ err }: Ran, last: string): void {
  const rows: Record<string, { readonly method: string }> = { ...ENDPOINT, ...OPERATOR_ENDPOINT };
  const method = rows[last]?.method ?? last.split(' ')[0];
  const { outcome, request } = (JSON.parse(err) as Told).error;
  expect(outcome, last).toBe(method === 'GET' || last === 'connect' ? 'not_applied' : 'unknown');
  if (last !== 'connect') expect(request?.method).toBe(method);
}

/** Checks that exactly the commands that call the service send requests. */
function checkAsked({ asks }: Case, column: Column, received: readonly string[]): void {
  if (asks === 'nobody') expect(received).toEqual([]);
  else if (column !== 'no network') expect(received.length).toBeGreaterThan(0);
}
