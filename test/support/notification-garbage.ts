/** Texts that are not a notification from a service. */
export const GARBAGE: readonly string[] = [
  ...['x', '', 'null', '0', '"text"', '[]', '{}', '{', '[['.repeat(2_000), `{"a":${'['.repeat(3_000)}`],
  ...['{"v":1}', '{"v":1,"from":5}', '{"v":1,"from":"x","events":"agt_"}', '{"v":1,"from":"x","events":[1,null,{}]}'],
  ...[
    '{"v":1,"from":"x","revoked":{"length":9}}',
    '{"v":"1","from":"x","events":[]}',
    '{"v":99,"from":"x","events":7}',
  ],
  ...['{"from":"x","events":["agt_01"]}', '{"__proto__":{"v":1,"from":"x"}}', '{"v":1,"from":"x","events":[""]}'],
  '\u0001\ud800\u2028',
  `{"v":1,"from":"x","events":["${'y'.repeat(7_000)}"]}`,
  `{"v":1,"from":"x","events":[${'"agt_",'.repeat(900)}"agt_"]}`,
];
