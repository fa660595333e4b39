// Builds dist/ (or the folder that is named): the program (start.cjs, main.cjs), the library export (index.js), its declarations (types/) and the licences of
// what was bundled (third-party-licenses.txt).
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const finished = resolve(process.argv[2] ?? `${root}dist`);
/** Built beside its place and moved there whole: a program that starts meanwhile finds the old build or the new one. */
const target = `${finished}.${process.pid}`;
const require = createRequire(import.meta.url);

/** These carry compiled addons that must be found beside their own package. */
const EXTERNAL = ['keytar', '@photostructure/sqlite'];

/**
 * `await import('ws')` of a CommonJS package has named exports under Node, but only a default one once esbuild has
 * split it into a chunk of its own. This gives the chunk the names Node would give it.
 */
const namedExportsOfCommonJs = {
  name: 'named-exports-of-commonjs',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^[^.]/ }, ({ kind, path, resolveDir }) => {
      const isBundledPackage = !path.startsWith('node:') && !path.startsWith('/') && !EXTERNAL.includes(path);
      if (kind !== 'dynamic-import' || !isBundledPackage || resolveDir.includes('node_modules')) return undefined;
      return { path, namespace: 'dynamically-imported', pluginData: { resolveDir } };
    });
    onLoad({ filter: /.*/, namespace: 'dynamically-imported' }, async ({ path, pluginData }) => {
      const names = Object.keys(await import(path)).filter((name) => name !== 'module.exports');
      const from = JSON.stringify(path);
      return { contents: `export {${names.join(',')}} from ${from};`, resolveDir: pluginData.resolveDir };
    });
  },
};

function collectLicenses(metafile) {
  const folders = Object.keys(metafile.inputs).map(
    (input) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1],
  );
  const bundled = [...new Set(folders)].filter((folder) => folder !== undefined).sort();
  return bundled.map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(`${root}${folder}/package.json`, 'utf8'));
    const file = readdirSync(`${root}${folder}`).find((entry) => /^(licen[cs]e|copying)/i.test(entry));
    const text = file === undefined ? '' : `\n\n${readFileSync(`${root}${folder}/${file}`, 'utf8').trim()}`;
    return `${name} ${version} (${license})${text}\n`;
  });
}

const common = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  target: 'node20.19',
  define: { ASP_VERSION: JSON.stringify(JSON.parse(readFileSync(`${root}package.json`, 'utf8')).version) },
  minifySyntax: true,
  minifyWhitespace: true,
  minifyIdentifiers: true,
  legalComments: 'none',
  logLevel: 'warning',
  metafile: true,
  external: EXTERNAL,
};

/** What the program imports only when it is needed and shares nothing with: the service, and the larger packages. */
const apart = new Map();
const buildApart = {
  name: 'build-apart',
  setup({ onResolve }) {
    onResolve({ filter: /\/service\// }, ({ kind, path, resolveDir }) => {
      // Imported at once it is a copy of the program's own: plain functions only, since classes would not be the same.
      if (kind !== 'dynamic-import') return undefined;
      const source = resolve(resolveDir, path).replace(/\.js$/, '.ts');
      apart.set(`apart/${basename(path, '.js')}`, source);
      return { path: `./apart/${basename(path)}`, external: true };
    });
    onResolve({ filter: /^[^.]/ }, ({ kind, path, resolveDir }) => {
      const isOurs = !resolveDir.includes('node_modules') && !path.startsWith('node:') && !EXTERNAL.includes(path);
      if (kind !== 'dynamic-import' || !isOurs) return undefined;
      const name = path.replaceAll(/[^a-z0-9-]/g, '_');
      apart.set(`apart/${name}`, path);
      return { path: `./apart/${name}.js`, external: true };
    });
  },
};

/** commander asks for Node's child processes at once, for commands that are programs of their own. We have none; loading them costs milliseconds. */
const childProcessesLater = {
  name: 'child-processes-later',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^node:child_process$/ }, ({ importer, path }) =>
      /node_modules\/commander\//.test(importer) ? { path, namespace: 'later' } : undefined,
    );
    onLoad({ filter: /.*/, namespace: 'later' }, ({ path }) => ({
      contents: `exports.spawn = (...given) => require('${path}').spawn(...given);`,
    }));
  },
};

/**
 * One CommonJS file, whose modules run when they are first imported: what a command does not need costs little, and Node.js
 * finds and links one file instead of dozens (D-67).
 */
const program = await build({
  ...common,
  entryPoints: ['src/main.ts'],
  outfile: `${target}/main.cjs`,
  format: 'cjs',
  plugins: [childProcessesLater, buildApart],
});

const rest = await build({
  ...common,
  entryPoints: { index: 'src/client/library.ts', ...Object.fromEntries([...apart].sort()) },
  outdir: target,
  chunkNames: 'apart/chunks/[name]-[hash]',
  splitting: true,
  format: 'esm',
  plugins: [namedExportsOfCommonJs],
  // CommonJS packages inside an ES module bundle still ask for Node's own modules by require.
  banner: { js: "import{createRequire as $require}from'node:module';const require=$require(import.meta.url);" },
});

/** A script that was compiled before cannot import by itself: what starts it does, by this name. */
const importing = /\bimport\(/g;
writeFileSync(`${target}/main.cjs`, readFileSync(`${target}/main.cjs`, 'utf8').replaceAll(importing, '$import('));

/** What starts the program; it knows the bytes it starts, so that it never runs what was compiled of others. */
const start = await build({
  ...common,
  define: {
    ...common.define,
    ASP_BUILD: JSON.stringify(
      createHash('sha256')
        .update(readFileSync(`${target}/main.cjs`))
        .digest('hex')
        .slice(0, 16),
    ),
  },
  entryPoints: ['src/start.ts'],
  outfile: `${target}/start.cjs`,
  format: 'cjs',
});

const inputs = { ...start.metafile.inputs, ...program.metafile.inputs, ...rest.metafile.inputs };
writeFileSync(`${target}/third-party-licenses.txt`, collectLicenses({ inputs }).join(`\n${'-'.repeat(78)}\n\n`));

const tsc = require.resolve('typescript/package.json').replace('package.json', 'bin/tsc');
execFileSync(process.execPath, [tsc, '-p', 'tsconfig.types.json', '--outDir', `${target}/types`], {
  cwd: root,
  stdio: 'inherit',
});

rmSync(finished, { recursive: true, force: true });
renameSync(target, finished);
