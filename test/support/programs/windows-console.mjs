// Starts a program in the console that it runs in: one that Wine starts has variables from its registry.
import { spawn } from 'node:child_process';

const { command, words, environment } = JSON.parse(process.env.ASP_TEST_START);
// Ctrl-C reaches both. This one waits for how the other ends.
process.on('SIGINT', () => {});
spawn(command, words, { env: environment, stdio: 'inherit' }).on('exit', (status) => process.exit(status ?? 1));
