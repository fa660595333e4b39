import { chmodSync, copyFileSync, mkdirSync, readdirSync, readlinkSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Copies a folder's contents with their permissions, which `cpSync` drops in some versions of Node.js. Starting `cp`
 * instead takes a large process some 20 ms, and the tests do it thousands of times.
 */
export function copyFolder(from: string, to: string): void {
  mkdirSync(to, { recursive: true });
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isSymbolicLink()) symlinkSync(readlinkSync(source), target);
    else if (entry.isDirectory()) copyFolder(source, target);
    else copyFileSync(source, target);
  }
  chmodSync(to, statSync(from).mode);
}
