// Finds the files that the build embeds in the program: the completion scripts, and the styles and browser scripts of
// the dashboard. Also locates jq, which is loaded from a separate file.
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { transformSync } from 'esbuild';

const read = (path) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8');
/** The library that runs jq expressions: one file, with `build/jq.wasm` next to it. */
export const JQ = createRequire(import.meta.url).resolve('jq-wasm');
const ASSETS = 'src/service/web/assets';

/** A style or a script without its comments and spaces, because it is part of every page. */
const shrink = (name) =>
  transformSync(read(`${ASSETS}/${name}`), {
    loader: name.endsWith('.css') ? 'css' : 'js',
    minifyWhitespace: true,
    charset: 'utf8',
  }).code;

/** Returns the values of the names that stand for these files in the sources, for a bundler's `define`. */
export function embeddedFiles() {
  const assets = readdirSync(new URL(`../${ASSETS}`, import.meta.url));
  return {
    ASP_COMPLETIONS: JSON.stringify({
      bash: read('completions/asp.bash'),
      zsh: read('completions/_asp'),
      fish: read('completions/asp.fish'),
      powershell: read('completions/asp.ps1'),
    }),
    ASP_ASSETS: JSON.stringify(Object.fromEntries(assets.map((name) => [name, shrink(name)]))),
    ASP_JQ: JSON.stringify(JQ),
  };
}
