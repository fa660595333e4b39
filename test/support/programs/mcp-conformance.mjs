import { register } from 'node:module';

// The suite imports `globSync`, which Node.js 20 lacks, for commands that the tests do not run.
const asModule = (source) => `data:text/javascript,${encodeURIComponent(source)}`;
const fs = asModule(`
  import { createRequire } from 'node:module';
  export * from 'node:fs';
  export const globSync = createRequire('file:///')('node:fs').globSync;
`);
register(
  asModule(`
    export const resolve = (name, context, next) =>
      name === 'fs' ? { url: ${JSON.stringify(fs)}, shortCircuit: true } : next(name, context);
  `),
);
