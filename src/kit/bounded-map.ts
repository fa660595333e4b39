/** Drops the entry that has been in a map the longest, if there are more than `max`. */
export function dropFirst<Key>(map: Map<Key, unknown>, max: number): void {
  const [first] = map.keys();
  if (map.size > max && first !== undefined) map.delete(first);
}

/** Puts an entry last in a map, so that the first one is the one put least recently, and keeps at most `max`. */
export function putLast<Key, Value>(map: Map<Key, Value>, key: Key, value: Value, max: number): void {
  map.delete(key);
  map.set(key, value);
  dropFirst(map, max);
}
