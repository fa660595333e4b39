// Prepares and checks a release.
//   node scripts/release.mjs 0.2.0        checks everything, dates the changelog, commits and tags v0.2.0
//   node scripts/release.mjs verify v…    fails unless the tag, package.json and the changelog agree
//   node scripts/release.mjs notes v…     prints the changelog of that version
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const read = (name) => readFileSync(`${root}${name}`, 'utf8');
const run = (command, ...args) => execFileSync(command, args, { cwd: root, stdio: 'inherit' });
const output = (command, ...args) => execFileSync(command, args, { cwd: root, encoding: 'utf8' }).trim();

function fail(message) {
  console.error(message);
  process.exit(1);
}

/** Returns the changelog text below a version's heading, or undefined. */
function changesOf(version) {
  const heading = new RegExp(`^## ${version.replaceAll('.', '\\.')}(?: .*)?$`, 'm').exec(read('CHANGELOG.md'));
  if (heading === null) return undefined;
  const rest = read('CHANGELOG.md').slice(heading.index + heading[0].length);
  return rest.split(/^## /m, 1)[0].trim();
}

function prepare(version) {
  if (!/^\d+\.\d+\.\d+$/.test(version)) fail(`${version} is not a version like 1.2.3.`);
  if (output('git', 'status', '--porcelain') !== '') fail('The working tree has changes. Commit them first.');
  if (output('git', 'rev-parse', '--abbrev-ref', 'HEAD') !== 'main') fail('Releases are made from main.');
  if (output('git', 'tag', '--list', `v${version}`) !== '') fail(`v${version} is released already.`);
  if (!changesOf('Unreleased')) fail('CHANGELOG.md lists no changes under "Unreleased".');

  const today = new Date().toISOString().slice(0, 10);
  writeFileSync(
    `${root}CHANGELOG.md`,
    read('CHANGELOG.md').replace(/^## Unreleased$/m, `## Unreleased\n\n## ${version} – ${today}`),
  );
  run('npm', 'version', version, '--no-git-tag-version');
  run('npm', 'run', 'check');
  run('git', 'commit', '--all', '--message', `Release ${version}`);
  run('git', 'tag', '--annotate', `v${version}`, '--message', `Release ${version}`);
  console.log(`\nTagged v${version}. To publish: git push --follow-tags`);
}

function verify(tag) {
  const { version } = JSON.parse(read('package.json'));
  if (tag !== `v${version}`) fail(`The tag is ${tag}, but package.json says ${version}.`);
  if (!changesOf(version)) fail(`CHANGELOG.md has no entry for ${version}.`);
}

const [command = '', tag = ''] = process.argv.slice(2);
if (command === 'verify') verify(tag);
else if (command === 'notes')
  console.log(changesOf(tag.replace(/^v/, '')) ?? fail(`CHANGELOG.md has no entry for ${tag}.`));
else prepare(command);
