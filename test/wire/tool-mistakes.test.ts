import { describe, expect, it } from 'vitest';
import * as z from 'zod/mini';

import { findToolMistake, TOOL_INPUT, type ToolFacts } from '../../src/wire/schemas/tool.js';

describe('a mistake in the arguments of a tool', () => {
  const tool: ToolFacts = {
    name: 'send',
    title: 'Send',
    description: '',
    effect: 'adds',
    input: z.object({ to: TOOL_INPUT.target, end: TOOL_INPUT.end }),
  };

  it.each([{}, { to: 5 }, { to: [5] }])('names the forms that the argument may have: %j', (given) =>
    expect(findToolMistake(tool, given)).toBe(
      '"to" must be a session id (sess_…), a handle (@owner.name), or several handles.',
    ),
  );

  it('names the type of any other argument', () => {
    expect(findToolMistake(tool, { to: '@a.b', end: 'yes' })).toBe('"end" must be of type boolean.');
    expect(findToolMistake(tool, { to: '@a.b' })).toBeUndefined();
  });
});
