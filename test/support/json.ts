/** Reads JSON by path: `participants.0.handle`. */
export function field(value: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((inner, key) => {
    if (typeof inner !== 'object' || inner === null) return undefined;
    return (inner as Readonly<Record<string, unknown>>)[key];
  }, value);
}

/** Returns the text at `path`; throws on anything else. */
export function text(value: unknown, path: string): string {
  const found = field(value, path);
  if (typeof found !== 'string') throw new TypeError(`${path} is no string in ${JSON.stringify(value)}`);
  return found;
}

/** Returns the whole number at `path`; throws on anything else. */
export function whole(value: unknown, path: string): number {
  const found = field(value, path);
  if (!Number.isInteger(found)) throw new TypeError(`${path} is no whole number in ${JSON.stringify(value)}`);
  return found as number;
}

/** Returns the array at `path`; throws on anything else. */
export function list(value: unknown, path: string): readonly unknown[] {
  const found = field(value, path);
  if (!Array.isArray(found)) throw new TypeError(`${path} is no array in ${JSON.stringify(value)}`);
  return found;
}

/** Returns the names of an object's members, sorted. */
export function keysOf(value: unknown): string[] {
  return typeof value === 'object' && value !== null ? Object.keys(value).sort() : [];
}
