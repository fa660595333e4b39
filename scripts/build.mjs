// Builds dist/ (or the folder in the first argument): the program (start.cjs, main.cjs), the library (index.js) and its
// test kit (testing.js), their declarations (types/), the licenses of the bundled packages, and a bill of materials
// (sbom.cdx.json). With --no-types after the folder, it leaves out the declarations, which take most of the time.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

import { embeddedFiles, JQ } from './embedded-files.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const finished = resolve(process.argv[2] ?? `${root}dist`);
/**
 * The build goes to a temporary folder and then replaces the old one. A program that starts in the meantime finds either
 * build complete.
 */
const target = `${finished}.${process.pid}`;
const require = createRequire(import.meta.url);

/** These packages contain compiled addons, which must be found next to their own package. */
const EXTERNAL = ['keytar', '@photostructure/sqlite'];

/** Licenses of code that a package contains without naming it. */
const CONTAINED = { 'jq-wasm': ['scripts/licenses/jq.txt'] };

/** Describes the bundled packages from their package.json and the lockfile. */
function bundledPackages(inputs) {
  const locked = JSON.parse(readFileSync(`${root}package-lock.json`, 'utf8')).packages;
  const folders = Object.keys(inputs).map((input) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1]);
  return [...new Set(folders)]
    .filter((folder) => folder !== undefined)
    .sort()
    .map((folder) => {
      const { name, version, license } = JSON.parse(readFileSync(`${root}${folder}/package.json`, 'utf8'));
      const file = readdirSync(`${root}${folder}`).find((entry) => /^(licen[cs]e|copying)/i.test(entry));
      const files = [...(file === undefined ? [] : [`${folder}/${file}`]), ...(CONTAINED[name] ?? [])];
      const text = files.map((path) => `\n\n${readFileSync(`${root}${path}`, 'utf8').trim()}`).join('');
      return { name, version, license, licenseText: text, integrity: locked[folder]?.integrity };
    });
}

/**
 * Returns a CycloneDX bill of materials. A consumer's lockfile does not list bundled packages, but with this file a
 * scanner sees them. It has no date or serial number, so that every build gives the same bytes.
 */
function billOfMaterials(packages) {
  const { name, version, license, dependencies, optionalDependencies } = JSON.parse(
    readFileSync(`${root}package.json`, 'utf8'),
  );
  const locked = JSON.parse(readFileSync(`${root}package-lock.json`, 'utf8')).packages;
  const installed = Object.keys({ ...dependencies, ...optionalDependencies }).map((key) => {
    const entry = locked[`node_modules/${key}`];
    return { name: entry.name ?? key, version: entry.version, license: entry.license, integrity: entry.integrity };
  });
  const component = ({ name: full, version: exact, license: spdx, integrity }, scope) => {
    const [, group, own] = /^(?:(@[^/]+)\/)?(.+)$/.exec(full) ?? [];
    return {
      type: 'library',
      'bom-ref': `pkg:npm/${full.replace('@', '%40')}@${exact}`,
      ...(group === undefined ? {} : { group }),
      name: own,
      version: exact,
      purl: `pkg:npm/${full.replace('@', '%40')}@${exact}`,
      licenses: [{ expression: spdx }],
      ...(integrity === undefined
        ? {}
        : { hashes: [{ alg: 'SHA-512', content: Buffer.from(integrity.slice(7), 'base64').toString('hex') }] }),
      properties: [{ name: 'asp:distribution', value: scope }],
    };
  };
  return {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: {
      component: {
        type: 'application',
        name,
        version,
        licenses: [{ expression: license }],
        purl: `pkg:npm/${name}@${version}`,
      },
    },
    components: [
      ...packages.map((one) => component(one, 'bundled')),
      ...installed.map((one) => component(one, 'installed')),
    ],
  };
}

/**
 * Bundles only the parts of undici that the client uses: its dispatchers and CONNECT. The whole package brings fetch,
 * mocks, caches, and a WebSocket, and loading Node's http and assert costs milliseconds (docs/decisions/client.md).
 */
const undiciParts = {
  name: 'undici-parts',
  setup({ onResolve, onLoad }) {
    const isUndici = (importer) => /node_modules\/undici\//.test(importer);
    onResolve({ filter: /^undici$/ }, ({ resolveDir }) => ({
      path: 'undici',
      namespace: 'undici-parts',
      pluginData: { resolveDir },
    }));
    onLoad({ filter: /^undici$/, namespace: 'undici-parts' }, ({ pluginData }) => ({
      contents: `
        import Agent from 'undici/lib/dispatcher/agent.js';
        import Client from 'undici/lib/dispatcher/client.js';
        import Dispatcher from 'undici/lib/dispatcher/dispatcher.js';
        import buildConnector from 'undici/lib/core/connect.js';
        Dispatcher.prototype.connect = function (...given) {
          return require('undici/lib/api/api-connect.js').apply(this, given);
        };
        export { Agent, buildConnector, Client };`,
      resolveDir: pluginData.resolveDir,
    }));
    for (const [filter, contents] of [
      [/\/client-h2\.js$/, 'module.exports = undefined;'],
      [/\/web\/fetch\/body\.js$/, 'module.exports = {};'],
      [/^node:http$/, 'exports.maxHeaderSize = 16384; exports.IncomingMessage = class {};'],
      [
        /^node:assert$/,
        `module.exports = (value, message = 'an assertion of undici failed') => { if (!value) throw new Error(message); };`,
      ],
    ]) {
      onResolve({ filter }, ({ path, importer }) =>
        isUndici(importer) ? { path, namespace: 'undici-unused' } : undefined,
      );
      onLoad({ filter, namespace: 'undici-unused' }, () => ({ contents }));
    }
  },
};

const common = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  target: 'node20.19',
  define: {
    ASP_VERSION: JSON.stringify(JSON.parse(readFileSync(`${root}package.json`, 'utf8')).version),
    ...embeddedFiles(),
    ASP_JQ: JSON.stringify('jq/jq.cjs'),
  },
  minifySyntax: true,
  minifyWhitespace: true,
  minifyIdentifiers: true,
  legalComments: 'none',
  logLevel: 'warning',
  metafile: true,
  external: EXTERNAL,
  // The CommonJS version requires its own files in a way that bundlers do not see.
  alias: { 'jsonc-parser': 'jsonc-parser/lib/esm/main.js' },
};

/** Code that is imported on demand, as separate files in apart/: the names of the files, and what each contains. */
const apart = new Map();
function separate(name, source) {
  apart.set(name, new Set(apart.get(name)).add(source));
  return { path: `./apart/${name}.cjs`, external: true };
}

const serviceApart = {
  name: 'service-apart',
  setup({ onResolve }) {
    onResolve({ filter: /\/service\// }, ({ kind, path, resolveDir }) =>
      // A static import copies the code into the program. That works only for plain functions, because a copied class
      // is a different class.
      kind === 'dynamic-import'
        ? separate(basename(path, '.js'), resolve(resolveDir, path).replace(/\.js$/, '.ts'))
        : undefined,
    );
  },
};

/** The larger packages, each in one file, so that all of its parts know the same classes. */
const packagesApart = {
  name: 'packages-apart',
  setup({ onResolve }) {
    onResolve({ filter: /^[^.]/ }, ({ kind, path, resolveDir }) => {
      const isOurs = !resolveDir.includes('node_modules') && !path.startsWith('node:') && !EXTERNAL.includes(path);
      if (kind !== 'dynamic-import' || !isOurs) return undefined;
      const [name] = /^(@[^/]+\/)?[^/]+/.exec(path);
      return separate(name.replace('@', '').replace('/', '-'), path);
    });
  },
};

/**
 * Node.js modules that take milliseconds to load, and their functions, which load them when called. commander imports
 * child processes at startup for commands that are separate programs, and most of our commands need no cryptography.
 */
const LATER = {
  'node:child_process': { importer: /node_modules\/commander\//, names: ['spawn'] },
  'node:crypto': {
    importer: /\/src\/(cli|client|kit)\//,
    names: [
      'createCipheriv',
      'createDecipheriv',
      'createHash',
      'createHmac',
      'randomBytes',
      'scrypt',
      'timingSafeEqual',
    ],
  },
};
const loadLater = {
  name: 'load-later',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^node:(child_process|crypto)$/ }, ({ importer, path }) =>
      LATER[path].importer.test(importer) ? { path, namespace: 'later' } : undefined,
    );
    onLoad({ filter: /.*/, namespace: 'later' }, ({ path }) => ({
      contents: LATER[path].names
        .map((name) => `export const ${name} = (...args) => require('${path}').${name}(...args);`)
        .join('\n'),
    }));
  },
};

/** Uses of the global `Headers` and `Response` become uses of these: the global ones load Node's own HTTP client. */
const withFetchClasses = { inject: ['src/client/oauth/fetch-classes.ts'] };

/**
 * Bundles one CommonJS file whose modules run on first import. Unused modules cost little, and Node.js finds and links
 * one file instead of dozens (D-67).
 */
const program = await build({
  ...common,
  ...withFetchClasses,
  entryPoints: ['src/main.ts'],
  outfile: `${target}/main.cjs`,
  format: 'cjs',
  plugins: [undiciParts, loadLater, serviceApart, packagesApart],
});

/** Leaves out what command definitions import only to run the commands. The program itself imports the definitions. */
const withoutDynamicImports = {
  name: 'without-dynamic-imports',
  setup({ onResolve }) {
    onResolve({ filter: /.*/ }, ({ kind, path, importer }) =>
      kind === 'dynamic-import' && !importer.endsWith('/cli/program.ts') ? { path, external: true } : undefined,
    );
  },
};

/** Runs the program's definitions to collect the words that completions know in advance. */
async function collectVocabulary() {
  const collector = `${target}/known-words.mjs`;
  await build({
    ...common,
    stdin: {
      contents: `
        import { loadCommands } from './src/cli/command.js';
        import { PROGRAM } from './src/cli/program.js';
        import { collectVocabulary } from './src/cli/commands/completion/known-words.js';
        export const vocabulary = collectVocabulary(await loadCommands(PROGRAM));`,
      resolveDir: root,
    },
    outfile: collector,
    format: 'esm',
    plugins: [withoutDynamicImports],
  });
  const { vocabulary } = await import(collector);
  rmSync(collector);
  return vocabulary;
}

/**
 * People wait for `asp __complete` and `asp --help`, so these are small separate files, with the words that they need
 * next to them.
 */
writeFileSync(`${target}/known-words.json`, JSON.stringify(await collectVocabulary()));
const small = await Promise.all(
  ['complete', 'overview'].map((name) =>
    build({ ...common, entryPoints: [`src/${name}.ts`], outfile: `${target}/${name}.cjs`, format: 'cjs' }),
  ),
);

/** `--jq` loads jq in a separate thread. The library looks for its WebAssembly next to itself. */
const jq = await build({ ...common, entryPoints: [JQ], outfile: `${target}/jq/jq.cjs`, format: 'cjs' });
mkdirSync(`${target}/jq/build`);
copyFileSync(`${dirname(JQ)}/build/jq.wasm`, `${target}/jq/build/jq.wasm`);

/**
 * Each is a CommonJS file, like the program, and so its compiled code is kept too. It has no import(), which a
 * precompiled script cannot use.
 */
const rest = await Promise.all(
  [...apart].map(([name, sources]) =>
    build({
      ...common,
      ...(name === 'openid-client' ? withFetchClasses : {}),
      ...(sources.size === 1
        ? { entryPoints: [...sources] }
        : { stdin: { contents: exportAll(sources), resolveDir: root } }),
      outfile: `${target}/apart/${name}.cjs`,
      format: 'cjs',
      supported: { 'dynamic-import': false },
      plugins: [undiciParts],
    }),
  ),
);

/** A file with the names of several parts of a package. */
function exportAll(sources) {
  return [...sources].map((source) => `export * from ${JSON.stringify(source)};`).join('\n');
}

/**
 * The library stays readable: stack traces lead into it, and class names match the documentation. The test kit shares
 * its classes and starts the program's service.
 */
const library = await build({
  ...common,
  // Source maps name files as seen from dist/, wherever this build goes.
  outdir: `${root}dist`,
  write: false,
  chunkNames: 'apart/chunks/[name]-[hash]',
  splitting: true,
  format: 'esm',
  plugins: [undiciParts, serviceApart],
  // CommonJS packages in an ES module bundle still `require` Node's modules. In a program that is bundled as CommonJS,
  // `import.meta.url` is undefined, but `__filename` is not.
  banner: {
    js: "import{createRequire as $require}from'node:module';const require=$require(import.meta.url??__filename);",
  },
  minifyWhitespace: false,
  minifyIdentifiers: false,
  // `node --enable-source-maps` names our files and lines. They are not in the package, so neither is their text.
  sourcemap: 'linked',
  sourcesContent: false,
  entryPoints: { index: 'src/library/library.ts', testing: 'src/testing/testing.ts' },
});

for (const { path, contents } of library.outputFiles) {
  const file = resolve(target, relative(`${root}dist`, path));
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, contents);
}

/** A precompiled script cannot use import(). start.ts provides it under this name. */
const withImport = (source, name) => (name === 'main' ? source.replaceAll(/\bimport\(/g, '$import(') : source);
/** esbuild escapes everything except regular expressions and tagged templates. */
const escapeUnit = (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
const bytes = createHash('sha256');
for (const name of ['main', ...[...apart.keys()].sort().map((one) => `apart/${one}`)]) {
  // start.ts reads these files as Latin-1, which takes half the time and memory.
  const source = withImport(readFileSync(`${target}/${name}.cjs`, 'utf8'), name).replaceAll(/[^\0-\x7f]/g, escapeUnit);
  writeFileSync(`${target}/${name}.cjs`, source);
  bytes.update(source);
}

/**
 * start.cjs starts the program. It knows the hash of the program's bytes, so that it never runs compiled code of
 * another build.
 */
const start = await build({
  ...common,
  define: {
    ...common.define,
    ASP_BUILD: JSON.stringify(bytes.digest('hex').slice(0, 16)),
  },
  entryPoints: ['src/start.ts'],
  outfile: `${target}/start.cjs`,
  format: 'cjs',
});

const inputs = {
  ...start.metafile.inputs,
  ...program.metafile.inputs,
  ...Object.assign({}, ...small.map(({ metafile }) => metafile.inputs)),
  ...jq.metafile.inputs,
  ...Object.assign({}, ...rest.map(({ metafile }) => metafile.inputs)),
  ...library.metafile.inputs,
};
const packages = bundledPackages(inputs);
const licenses = packages.map(
  ({ name, version, license, licenseText }) => `${name} ${version} (${license})${licenseText}\n`,
);
writeFileSync(`${target}/third-party-licenses.txt`, licenses.join(`\n${'-'.repeat(78)}\n\n`));
writeFileSync(`${target}/sbom.cdx.json`, `${JSON.stringify(billOfMaterials(packages), null, 2)}\n`);

if (process.argv[3] !== '--no-types') {
  const tsc = require.resolve('typescript/package.json').replace('package.json', 'bin/tsc');
  execFileSync(process.execPath, [tsc, '-p', 'tsconfig.types.json', '--outDir', `${target}/types`], {
    cwd: root,
    stdio: 'inherit',
  });
  // The test kit starts the service and the library signs in like the command line, but their declarations do not
  // mention either.
  for (const folder of ['service', 'cli']) rmSync(`${target}/types/${folder}`, { recursive: true });
}

rmSync(finished, { recursive: true, force: true });
renameSync(target, finished);
