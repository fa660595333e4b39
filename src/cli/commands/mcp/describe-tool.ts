import type { Tool } from '@modelcontextprotocol/sdk/types.js';
import * as z from 'zod/mini';

import type { ToolRow } from './tool.js';

/** A tool as the protocol lists it. */
export function describeTool({ name, title, description, input, output, effect, isIdempotent }: ToolRow): Tool {
  return {
    name,
    title,
    description,
    inputSchema: jsonSchemaOf(input, 'input'),
    outputSchema: jsonSchemaOf(output, 'output'),
    annotations: {
      title,
      readOnlyHint: effect === 'reads',
      destructiveHint: effect === 'destroys',
      idempotentHint: isIdempotent,
      // Other agents answer, and nobody here knows what.
      openWorldHint: true,
    },
  };
}

/** Draft 7: what the validators of clients know. */
function jsonSchemaOf(schema: z.ZodMiniType, io: 'input' | 'output'): Tool['inputSchema'] {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { target: 'draft-7', unrepresentable: 'any', io });
  return { ...rest, type: 'object' } as Tool['inputSchema'];
}
