import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import type { FastifyRequest } from 'fastify';
import { recordActivity } from '../agents/activity.js';
import type { ServiceContext } from '../core/context.js';
import type { Transaction } from '../core/database.js';
import { hasCode } from '../core/errors.js';
import { createSemaphore } from '../core/semaphore.js';
import { closeSockets } from '../messaging/presence.js';
import { attempt, toNetwork, toWiderNetwork, UNCOUNTED } from '../oauth/attempts.js';
import { hashSecret } from '../oauth/secret.js';
import type { AuthorizationServer } from '../oauth/server.js';
import { type AccountRow, findAccountByUsername, updatePasswordHash } from '../store/accounts.js';
import { hasActivitySince } from '../store/activities.js';
import { revokeSignInsOfAccount } from '../store/authorizations.js';
import { deleteAccountSessions, listSignInAddresses } from '../store/browser-sessions.js';
import { accountLock } from '../store/lock-names.js';

/** The words in the most popular passwords, and popular passwords without a pattern; in lower case. */
const COMMON_PASSWORDS: ReadonlySet<string> = new Set(
  `
  password passwort passw0rd passphrase contraseña contrasena motdepasse parola haslo senha heslo wachtwoord losenord salasana
  passord adgangskode sifre mypassword yourpassword newpassword nopassword thepassword secret topsecret mysecret changeme
  changeit change letmein openup opensesame sesame welcome welcome2 willkommen bienvenue hello hallo hola bonjour goodbye
  access login logon signin signup user username admin administrator adminadmin root toor guest default demo test tester
  testing temp temporary trial sample example master owner superuser supervisor manager service server system computer laptop
  internet network website google facebook twitter youtube instagram linkedin amazon apple microsoft windows linux ubuntu
  android iphone samsung nintendo playstation xbox minecraft roblox fortnite pokemon pikachu zelda warcraft starcraft
  halflife counter killer sniper gamer player winner loser champion legend
  iloveyou iloveyou1 iloveu loveyou lovelove lover lovers love lovely mylove truelove babygirl babyboy baby sweetheart
  sweetie sweety honey darling angel angels princess prince queen king princesa principe cutie beautiful pretty gorgeous
  handsome sexy sexygirl hottie teamo tequiero teamomucho amor amore jetaime liebe schatz schatzi
  monkey dragon tiger lion panther leopard cheetah jaguar puma cougar wolf wolves bear eagle falcon hawk phoenix raven shark
  dolphin dolphins turtle snake cobra viper spider scorpion butterfly kitty kitten hellokitty puppy doggie doggy horse horses
  pony unicorn chicken ducky donkey rabbit bunny penguin panda koala elephant bulldog rottweiler retriever
  sunshine sunflower flower flowers rainbow star stars starlight moonlight moon summer winter spring autumn fall january
  february march april june july august september october november december monday tuesday wednesday thursday friday saturday
  sunday christmas halloween easter birthday holiday weekend forever always
  football baseball basketball softball volleyball soccer hockey tennis golfer golfing running racing skater surfer surfing
  fishing hunter hunting skiing swimming boxing wrestling karate judo yankees redsox cowboys steelers packers raiders broncos
  eagles giants dodgers lakers celtics bulls rangers liverpool chelsea arsenal manchester barcelona realmadrid juventus
  milan inter bayern celtic everton tottenham
  batman superman spiderman ironman wolverine hulk avengers starwars darthvader skywalker yoda jedi startrek matrix
  gandalf frodo aragorn legolas hobbit tolkien harrypotter hogwarts potter dumbledore naruto sasuke goku gundam sailormoon
  simpsons homer snoopy garfield scooby scoobydoo mickey minnie disney nemo shrek barbie tinkerbell cinderella
  michael michelle jennifer jessica ashley amanda daniel daniela matthew andrew anthony christopher christian joshua joseph
  thomas robert richard charlie charles jordan nicole justin brandon samantha elizabeth victoria alexander alexandra alexis
  patrick maria mariana carlos alejandro fernando gabriel sebastian eduardo ricardo antonio francisco jasmine hannah
  heather maggie ginger pepper buster bailey rocky max sophie jackson tyler taylor austin dallas houston phoenix chicago
  london paris berlin moscow newyork california texas florida america england germany france canada mexico brasil
  brazil argentina colombia australia
  metallica slipknot nirvana beatles pinkfloyd ironmaiden linkinpark greenday blink182 eminem tupac madonna britney elvis
  mustang corvette camaro ferrari porsche mercedes bmw toyota honda yamaha suzuki kawasaki harley ducati chevy chevrolet ford
  jeep hummer subaru nissan mazda audi volkswagen
  chocolate cookie cookies cheese coffee banana orange cherry apple apples peaches strawberry vanilla sugar candy pizza
  hamburger bacon popcorn pumpkin
  jesus jesus1 jesuschrist christ church blessed faith heaven trustno1 trustme godisgood godislove believe freedom liberty
  peace whatever nothing something anything everything everyone nobody nothing1 mother father mommy daddy family sister
  brother friend friends bestfriend bestfriends
  killers metal rock rockstar rocknroll guitar music musica dancer dancing blacksmith silver golden diamond platinum
  crystal purple yellow green blue black white orange1 blink shadow ghost demon devil lucifer satan zombie vampire ninja
  samurai pirate warrior knight wizard merlin magic merlin1 mystic cyber hacker hackers hacked matrix1 neo trinity morpheus
  fuckyou fuckme fuckoff asshole bitch bullshit biteme pussy playboy
  qazwsx qazwsxedc wsxedc edcrfv zaqxsw zaq12wsx 1qaz 2wsx 3edc 4rfv 1q2w3e4r 1q2w3e4r5t 1q2w3e q1w2e3r4 q1w2e3 zaq1 xsw2 1a2b3c4d
  a1b2c3d4 a1b2c3 abc123 123abc 1qazxsw2 147258369 159357 741852963 789456123 192837465 1029384756 31415926 27182818
  11223344 121212 131313 112233 aabbccdd qweasd qweasdzxc asdzxc azerty qwertz
  correcthorsebatterystaple
  `
    .split(/\s+/)
    .filter((word) => word !== ''),
);

const MIN_LENGTH = 8;
const MAX_LENGTH = 200;

const KEY_BYTES = 32;
const SALT_BYTES = 16;
const COST: ScryptOptions = { N: 2 ** 15, r: 8, p: 1, maxmem: 64 * 1024 * 1024 };

const derive = promisify<string, Buffer, number, ScryptOptions, Buffer>(scrypt);

/** Half of the threads that Node.js has for scrypt, for signatures and for files: many passwords do not hold those up. */
const DERIVED_AT_ONCE = 2;
const DERIVED_LATER_MAX = 64;
const EVERYBODY = 'all';
const derivations = createSemaphore({
  max: DERIVED_AT_ONCE,
  waitingMax: DERIVED_LATER_MAX,
  refusal: 'Too many passwords are being checked.',
});

/** A salted scrypt hash (RFC 7914) with its cost, as one text. @throws ServiceError RATE_LIMITED, when too many wait. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  const text = password.normalize('NFKC');
  const key = await derivations.use(EVERYBODY, () => derive(text, salt, KEY_BYTES, COST));
  return `scrypt$${COST.N}$${COST.r}$${COST.p}$${salt.toString('base64url')}$${key.toString('base64url')}`;
}

/** Used for an account that does not exist, so that the answer takes as long. */
const NOBODY = `scrypt$${COST.N}$${COST.r}$${COST.p}$${Buffer.alloc(SALT_BYTES).toString('base64url')}$${Buffer.alloc(KEY_BYTES).toString('base64url')}`;

/** Whether `password` matches the hash; never for an account without a password, and just as slowly. */
export async function matchesPassword(hash: string | null | undefined, password: string): Promise<boolean> {
  const [, N, r, p, salt = '', key = ''] = (hash ?? NOBODY).split('$');
  const cost = { ...COST, N: Number(N), r: Number(r), p: Number(p) };
  const expected = Buffer.from(key, 'base64url');
  const derived = await derive(password.normalize('NFKC'), Buffer.from(salt, 'base64url'), expected.length, cost);
  return timingSafeEqual(derived, expected) && typeof hash === 'string';
}

/** The problem with a new password, worded for the person who chose it; undefined: none. */
export function findPasswordMistake(password: string, username: string): string | undefined {
  if (password.length < MIN_LENGTH || password.length > MAX_LENGTH) return 'Choose a password of 8 to 200 characters.';
  return isGuessable(password, username)
    ? 'This password is too easy to guess. Choose one that is not a common word, your username, or a run of keys.'
    : undefined;
}

/** Above these lengths, words and runs count as a passphrase. */
const PIECES_MAX = 2;
/** This much besides a word is decoration. */
const DECORATION_MAX_LENGTH = 3;
const RUN_MIN_LENGTH = 3;
/** A shorter one would match almost anything. */
const USERNAME_MIN_LENGTH = 3;
const REPEATED_MAX_LENGTH = 4;
const ROWS = [
  '01234567890',
  'abcdefghijklmnopqrstuvwxyz',
  'qwertyuiop',
  'qwertzuiop',
  'azertyuiop',
  'asdfghjkl',
  'zxcvbnm',
];
const RUNS = ROWS.flatMap((row) => [row, [...row].reverse().join('')]);
const LOOK_ALIKE: Readonly<Record<string, string>> = {
  '0': 'o',
  '1': 'i',
  '3': 'e',
  '4': 'a',
  '5': 's',
  '7': 't',
  '@': 'a',
  $: 's',
  '!': 'i',
};

/** Whether it is one or two common words, usernames, runs of keys or years, with next to nothing else. */
function isGuessable(password: string, username: string): boolean {
  const text = password.normalize('NFKC').toLowerCase();
  const plain = [...text].map((character) => LOOK_ALIKE[character] ?? character).join('');
  if (isOneRepeated(text)) return true;
  let pieces = 0;
  let beside = 0;
  for (let at = 0; at < text.length; ) {
    const length = pieceLengthAt(text, plain, username, at);
    if (length === 0) beside += 1;
    else pieces += 1;
    at += Math.max(1, length);
    if (pieces > PIECES_MAX || beside > DECORATION_MAX_LENGTH) return false;
  }
  return true;
}

function isOneRepeated(text: string): boolean {
  for (let length = 1; length <= REPEATED_MAX_LENGTH; length += 1)
    if (
      text ===
      text
        .slice(0, length)
        .repeat(Math.ceil(text.length / length))
        .slice(0, text.length)
    )
      return true;
  return false;
}

const WORD_MAX_LENGTH = Math.max(...[...COMMON_PASSWORDS].map((word) => word.length));

function pieceLengthAt(text: string, plain: string, username: string, at: number): number {
  const isUsername =
    username.length >= USERNAME_MIN_LENGTH && [text, plain].some((form) => form.startsWith(username, at));
  const isYear = /^(?:19|20)\d\d/.test(text.slice(at, at + 4));
  return Math.max(
    runLengthAt(text, at),
    wordLengthAt(text, plain, at),
    isUsername ? username.length : 0,
    isYear ? 4 : 0,
  );
}

function wordLengthAt(text: string, plain: string, at: number): number {
  for (let length = Math.min(WORD_MAX_LENGTH, text.length - at); length > 0; length -= 1)
    if ([text, plain].some((form) => COMMON_PASSWORDS.has(form.slice(at, at + length)))) return length;
  return 0;
}

/** How far a run of the same character, or of neighboring keys, continues from here; 0 if there is none. */
function runLengthAt(text: string, at: number): number {
  const longest = [text[at]?.repeat(text.length) ?? '', ...RUNS.map((row) => row.slice(row.indexOf(text[at] ?? '')))];
  const lengths = longest.map((row) => {
    let length = 0;
    while (row[length] !== undefined && row[length] === text[at + length]) length += 1;
    return length;
  });
  const length = Math.max(...lengths);
  return length >= RUN_MIN_LENGTH ? length : 0;
}

/** The check of a typed account password. */
export type PasswordCheck =
  | { readonly kind: 'right'; readonly account: AccountRow }
  | { readonly kind: 'wrong' }
  /** It was not checked: there were too many attempts. */
  | { readonly kind: 'refused'; readonly waitS: number };

interface TypedPassword {
  readonly username: string;
  readonly password: string;
}

/**
 * Every page that asks for a password uses this, so that attempts on one count for all. An unknown account and a wrong
 * password get the same answer, equally slowly. One that would have to wait for too many others is not checked, and does
 * not count as an attempt.
 */
export async function checkPassword(
  server: AuthorizationServer,
  { ip }: FastifyRequest,
  typed: TypedPassword,
): Promise<PasswordCheck> {
  const check = (): Promise<PasswordCheck> => derivations.use(EVERYBODY, () => checkCounted(server, ip, typed));
  const { isAddressShared } = server.context.settings;
  const network = toWiderNetwork(ip) ?? toNetwork(ip);
  try {
    return await (isAddressShared ? check() : server.passwordChecks.use(network, check));
  } catch (error) {
    if (!hasCode(error, 'RATE_LIMITED')) throw error;
    server.context.meter.signInFailed();
    server.context.log.security?.('sign_in_failed', { address: ip, outcome: 'too_many' });
    return { kind: 'refused', waitS: error.options.retryAfterS ?? 1 };
  }
}

async function checkCounted(
  server: AuthorizationServer,
  ip: string,
  { username, password }: TypedPassword,
): Promise<PasswordCheck> {
  const network = toNetwork(ip);
  const wider = toWiderNetwork(ip) ?? '';
  // A typed username of any length takes at most this much space.
  const name = hashSecret(username);
  const subject = hashSecret(`${username} ${network}`);
  const { account, addresses } = await server.context.database.read(async (query) => {
    const found = await findAccountByUsername(query, username);
    return { account: found, addresses: await listSignInAddresses(query, found?.id ?? '') };
  });
  const isKnown = server.rightSignIns.has(subject) || addresses.some((address) => toNetwork(address) === network);
  const waitS = attempt([
    [server.signInsOfAccount, subject],
    [server.signInsOfAddress, network],
    [wider === '' ? UNCOUNTED : server.signInsOfWiderNetwork, wider],
    // Guesses from elsewhere must not lock out the owner at home.
    [isKnown ? UNCOUNTED : server.signInsOfStrangers, name],
  ]);
  const fail = (outcome: string): void => {
    server.context.meter.signInFailed();
    // The typed text may be a password: only the name of an account is recorded.
    const named = account === undefined ? {} : { account: username };
    server.context.log.security?.('sign_in_failed', { ...named, address: ip, outcome });
  };
  if (waitS > 0) {
    fail('too_many');
    return { kind: 'refused', waitS };
  }
  const isRight = await matchesPassword(account?.password_hash, password);
  if (account === undefined || !isRight) {
    if (account !== undefined) await recordWrongPassword(server.context, account.id, ip);
    fail(account === undefined ? 'no_such_account' : 'wrong_password');
    return { kind: 'wrong' };
  }
  server.signInsOfAccount.forget(subject);
  server.rightSignIns.add(subject);
  return { kind: 'right', account };
}

const WRONG_PASSWORD_EVERY_MS = 60 * 60 * 1000;

/** One entry an hour: attempts of a stranger must not push out the entries that the owner wants to see. */
async function recordWrongPassword(context: ServiceContext, accountId: string, address: string): Promise<void> {
  const kind = 'wrong-password';
  await context.database.write(async (transaction) => {
    const since = context.clock.now() - WRONG_PASSWORD_EVERY_MS;
    if (await hasActivitySince(transaction, accountId, kind, since)) return;
    await recordActivity(context, transaction, { accountId, kind, address });
  });
}

export interface NewPassword {
  readonly accountId: string;
  /** From `hashPassword`, which takes too long for a transaction. */
  readonly passwordHash: string;
  /** The browser that stays signed in; undefined: none. */
  readonly keptBrowserHash?: string | undefined;
  /** Whether apps stay signed in. */
  readonly areApplicationsKept?: boolean;
}

/** Sets a password and signs out everyone who may know the old one: browsers, and apps with their sockets. */
export async function setPassword(
  context: Pick<ServiceContext, 'clock' | 'bus'>,
  transaction: Transaction,
  { accountId, passwordHash, keptBrowserHash, areApplicationsKept = false }: NewPassword,
): Promise<void> {
  // A sign-in with the old one comes before this, and is ended, or after it, and is refused.
  await transaction.lock([accountLock(accountId)]);
  await updatePasswordHash(transaction, accountId, passwordHash);
  await deleteAccountSessions(transaction, accountId, keptBrowserHash);
  if (areApplicationsKept) return;
  await closeSockets(context, transaction, await revokeSignInsOfAccount(transaction, accountId, context.clock.now()));
}
