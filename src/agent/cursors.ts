import * as z from 'zod/mini';

/** How far a session has been read, and in which epoch of the service's data. */
export interface Cursor {
  readonly after: number;
  readonly epoch?: string | undefined;
}

/** The epoch of most sessions; a session that was last read in another epoch names its own. */
export function cursorsToJson(cursors: ReadonlyMap<string, Cursor>): z.infer<typeof CursorsJson> {
  const epoch = [...cursors.values()].at(-1)?.epoch;
  const others = [...cursors].filter(([, cursor]) => cursor.epoch !== epoch);
  return {
    ...(epoch !== undefined && { epoch }),
    sessions: Object.fromEntries([...cursors].map(([id, { after }]) => [id, after])),
    ...(others.length > 0 && { epochs: Object.fromEntries(others.map(([id, cursor]) => [id, cursor.epoch ?? null])) }),
  };
}

/** How cursors are kept in files. */
export const CursorsJson = z.looseObject({
  epoch: z.optional(z.string()),
  sessions: z.record(z.string(), z.int().check(z.nonnegative())),
  epochs: z.optional(z.record(z.string(), z.nullable(z.string()))),
});

/** The cursors of a file. */
export function cursorsFromJson({ epoch, sessions, epochs = {} }: z.infer<typeof CursorsJson>): [string, Cursor][] {
  return Object.entries(sessions).map(([id, after]) => {
    const own = epochs[id];
    return [id, { after, epoch: own === undefined ? epoch : (own ?? undefined) }];
  });
}
