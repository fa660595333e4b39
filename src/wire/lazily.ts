import * as z from 'zod/mini';

/**
 * A schema that is built when it is first used. The contract is some sixty schemas and a command needs two or three of
 * them: building them all would cost it a tenth of its whole start.
 */
export function lazily<Schema extends z.ZodMiniType>(build: () => Schema): Schema {
  let built: Schema | undefined;
  const schema = (): Schema => {
    built ??= build();
    return built;
  };
  return new Proxy<Schema>(Object.create(null), {
    get: (_, key) => Reflect.get(schema(), key),
    set: (_, key, value) => Reflect.set(schema(), key, value),
    has: (_, key) => Reflect.has(schema(), key),
    ownKeys: () => Reflect.ownKeys(schema()),
    getPrototypeOf: () => Reflect.getPrototypeOf(schema()),
  });
}

/**
 * The last check of a schema whose values come in arrays. The service stops at the first issue of a body, and zod goes on to the
 * next element of an array after issues that do not abort, such as a pattern that does not match or an unknown member.
 */
export function abortOnIssue<Value>(): z.core.$ZodCheck<Value> {
  return z.check((payload) => {
    if (payload.issues.length > 0) payload.aborted = true;
  });
}
