import { execFileSync } from 'node:child_process';

/** What is in one folder, put into another with its rights, which `cpSync` of some versions of Node.js leaves behind. */
export function copyFolder(from: string, to: string): void {
  execFileSync('cp', ['-R', '-p', `${from}/.`, to]);
}
