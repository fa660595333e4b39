const USUAL = { columns: 80, rows: 24 };

/**
 * A pseudo-terminal may not know its size and report 0, at first or later: then a question would have one letter per
 * line, and a spinner would clear lines forever.
 */
export function nameUnknownSize(): void {
  for (const stream of [process.stdout, process.stderr]) {
    const name = (): void => {
      for (const side of ['columns', 'rows'] as const) if (stream[side] === 0) stream[side] = USUAL[side];
    };
    name();
    stream.on('resize', name);
  }
}
