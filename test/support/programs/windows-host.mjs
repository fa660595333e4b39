// Runs on Windows. Starts programs there for a test on Linux, with pipes of Windows, and says what they print.
import { spawn } from 'node:child_process';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';

const socket = connect(Number(process.argv[2]), '127.0.0.1');
const tell = (id, event, more) => socket.write(`${JSON.stringify({ id, event, ...more })}\n`);
const children = new Map();

const orders = {
  start({ id, command, words, environment, cwd, isVerbatim }) {
    const child = spawn(command, words, { env: environment, cwd, windowsVerbatimArguments: isVerbatim });
    children.set(id, child);
    child.on('error', ({ message }) => tell(id, 'close', { status: null, stderr: message }));
    child.on('close', (status) => {
      children.delete(id);
      tell(id, 'close', { status });
    });
    child.stdin.on('error', () => {});
    for (const name of ['stdout', 'stderr'])
      child[name].on('data', (chunk) => tell(id, name, { data: chunk.toString('base64') }));
    tell(id, 'started', { pid: child.pid ?? 0 });
  },
  write: ({ id, data }) => children.get(id)?.stdin.write(Buffer.from(data, 'base64')),
  end: ({ id }) => children.get(id)?.stdin.end(),
  stopReading: ({ id }) => children.get(id)?.stdout.destroy(),
  kill: ({ id }) => children.get(id)?.kill('SIGKILL'),
};

createInterface({ input: socket }).on('line', (line) => {
  const order = JSON.parse(line);
  orders[order.what](order);
});
socket.on('close', () => process.exit());
