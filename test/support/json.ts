/** Reads JSON by key, as any reader of the documents would: `participants.0.handle`. */
export function field(value: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((inner, key) => {
    if (typeof inner !== 'object' || inner === null) return undefined;
    return (inner as Readonly<Record<string, unknown>>)[key];
  }, value);
}

/** The text at `path`; anything else there is a failure. */
export function text(value: unknown, path: string): string {
  const found = field(value, path);
  if (typeof found !== 'string') throw new TypeError(`${path} is no string in ${JSON.stringify(value)}`);
  return found;
}

/** The whole number at `path`. */
export function whole(value: unknown, path: string): number {
  const found = field(value, path);
  if (!Number.isInteger(found)) throw new TypeError(`${path} is no whole number in ${JSON.stringify(value)}`);
  return found as number;
}

/** The array at `path`. */
export function list(value: unknown, path: string): readonly unknown[] {
  const found = field(value, path);
  if (!Array.isArray(found)) throw new TypeError(`${path} is no array in ${JSON.stringify(value)}`);
  return found;
}

/** The names of an object's members, sorted. */
export function keysOf(value: unknown): string[] {
  return typeof value === 'object' && value !== null ? Object.keys(value).sort() : [];
}
