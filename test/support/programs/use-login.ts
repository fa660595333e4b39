import { createLoginCredential } from '../../../src/client/credentials/login-credential.js';
import { createTransport } from '../../../src/client/http/transport.js';
import { systemClock } from '../../../src/kit/clock.js';
import { systemRandom } from '../../../src/kit/random.js';

const [directory = '', baseUrl = '', handle = '', kind = 'file', rejected] = process.argv.slice(2);

const credential = createLoginCredential(
  {
    transport: createTransport({ clock: systemClock }),
    random: systemRandom,
    kind: kind === 'keychain' ? 'keychain' : 'file',
    directories: { state: `${directory}/state`, runtime: `${directory}/run`, locks: `${directory}/locks` },
    platform: process.platform,
    environment: process.env,
  },
  { baseUrl, handle },
);
const { token } = await credential.accessToken('api', { rejected });
process.stdout.write(`${token}\n`);
