/** Builds a value when it is first asked for, and once. */
export function lazy<Value>(build: () => Promise<Value>): () => Promise<Value> {
  let built: Promise<Value> | undefined;
  return () => {
    built ??= build();
    return built;
  };
}
