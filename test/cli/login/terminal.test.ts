import { describe, it } from 'vitest';

import { createHome, missing } from '../../acceptance/program.js';
import { createHomeWithService } from './signed-in-home.js';

const noPython = missing('python3');

describe.skipIf(noPython !== undefined)(`on a terminal that does not know its size ${noPython ?? ''}`, () => {
  it('a question stands in lines, and its answer is taken', async () => {
    const { home, service } = await createHomeWithService();
    const runtime = home.environment['XDG_RUNTIME_DIR'];
    // No store is named, and there is no keychain: the person is asked.
    const own = createHome({ XDG_RUNTIME_DIR: runtime, ASP_TOKEN_STORE: undefined, TERM: 'xterm' });
    const login = own.terminal(['login', '@demo.you', '--no-browser']);
    await login.until('stdout', /There is no keychain here\. Keep logins in a file that only you can read\?/);
    login.child.stdin?.write('y');
    await login.until('stdout', /authorize\?/);
    login.child.stdin?.write('\x03');
    await login.ended;
    await service.stop();
    await own.dispose();
    await home.dispose();
  });
});
