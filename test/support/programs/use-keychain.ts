import { createKeychain } from '../../../src/client/credentials/keychain.js';
import { RequestError } from '../../../src/client/http/request-error.js';
import { systemClock } from '../../../src/kit/clock.js';

const say = (text: string): void => void process.stdout.write(`${text}\n`);
const keychain = createKeychain({ clock: systemClock, platform: process.platform, environment: process.env });
const key = { baseUrl: 'https://example.com/v1', handle: '@alice.bot' };
try {
  await keychain.probe();
  say('probed');
  await keychain.set(key, 'secret');
  say((await keychain.get(key)) === 'secret' ? 'kept' : 'lost');
  say((await keychain.delete(key)) ? 'deleted' : 'not there');
  say((await keychain.get(key)) ?? 'nothing');
} catch (error) {
  say(error instanceof RequestError ? error.code : String(error));
}
