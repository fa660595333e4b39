import { readFile } from 'node:fs/promises';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openStage, type Stage } from '../service/dashboard/stage.js';
import { type Actor, type AgentOptions, createActor, operate } from '../support/actors.js';
import { newPerson, openBrowser, type Person } from '../support/browser.js';
import { launchChromium, noChromium } from '../support/chromium.js';
import { createHand, type Hand, type Way } from '../support/hand.js';
import { field } from '../support/json.js';
import { refresh } from '../support/oauth.js';
import { signIn } from '../support/person.js';
import { until } from '../support/until.js';

const PATIENCE_MS = 10_000;
const ALL_WAYS = process.env['ASP_TEST_LONG'] === '1';
const FRESH_PASSWORD = 'an unlikely phrase';

const WAYS = [
  ['pointer', 'desktop'],
  ['keyboard', 'phone'],
  ['keyboard', 'desktop'],
  ['pointer', 'phone'],
] as const satisfies readonly (readonly [Way, string])[];
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
const DESKTOP = { viewport: { width: 1280, height: 900 } };

/** Where a task begins: a signed-in person with an agent, and others on the same service. */
interface Scene {
  readonly hand: Hand;
  readonly page: Page;
  /** The person's agent `main`. */
  readonly main: Actor;
  /** The person at the page. Everyone but an owner has a password. */
  readonly person: Person;
  /** Another person, for operators. */
  readonly guest: Person;
  another(name: string, options?: AgentOptions): Promise<Actor>;
  /** Creates another agent of the person. */
  newAgent(name: string): Promise<string>;
  change(person: Person, body: object): Promise<unknown>;
  stateOf(person: Person): Promise<{ readonly state: string; readonly tier: string }>;
  /** Connects an app that the person has allowed to act for an agent. */
  connectApp(name: string): Promise<{ isConnected(): Promise<boolean> }>;
  /** Creates a session between `main` and another agent, which has sent a message. */
  talk(topic: string): Promise<{ readonly id: string; readonly other: Actor }>;
}

interface Task {
  readonly who: 'owner' | 'member' | 'operator' | 'visitor';
  /** The inbound policy of the owner's agent; `open` by default. */
  readonly policy?: AgentOptions['policy'];
  readonly presses: number;
  /** How many presses the same task takes in another console, by the steps in its documentation. */
  readonly elsewhere?: number;
  do(scene: Scene): Promise<void>;
}

/**
 * What people do with the dashboard, and the maximum number of presses from the first page. An owner has the account of
 * an agent that programs use, a member signed up with a password, and a visitor has no account.
 */
const TASKS: Readonly<Record<string, Task>> = {
  'A visitor makes an account and a first agent': {
    who: 'visitor',
    presses: 4,
    async do({ hand, person }) {
      await hand.press('details', 'New here? Create an account');
      await hand.type('Username', person.username);
      await hand.type('Your name', 'Vera');
      await hand.type('Password', person.password);
      await hand.press('button', 'Create account');
      await hand.press('link', 'Create an agent');
      await hand.type('Handle', 'helper');
      await hand.type('Display name', 'Helper');
      await hand.press('button', 'Create agent');
      await hand.see('The agent was created.');
    },
  },
  'Add another agent': {
    who: 'owner',
    presses: 2,
    async do({ hand, main }) {
      await hand.press('link', 'New agent');
      await hand.type('Handle', 'second');
      await hand.type('Display name', 'Second');
      await hand.press('button', 'Create agent');
      await hand.see('The agent was created.');
      await hand.see(`@${main.owner}.second`);
    },
  },
  'Close an agent to strangers': {
    who: 'owner',
    presses: 3,
    async do({ hand, main, another }) {
      await hand.press('link', 'main');
      await hand.press('radio', /^Only agents on the allowlist(?!, and)/);
      await hand.press('button', 'Save');
      await hand.see('Your changes were saved.');
      const stranger = await another('stranger');
      expect((await stranger.post('/sessions', { invite: [main.handle] })).status).toBe(404);
    },
  },
  'Let one stranger in': {
    who: 'owner',
    policy: 'allowlist',
    presses: 3,
    async do({ hand, main, another }) {
      const friend = await another('friend');
      await hand.press('link', 'main');
      await hand.press('link', 'Allowlist');
      await hand.type('Add to allowlist', friend.handle);
      await hand.press('button', 'Add');
      await hand.see(`Added ${friend.handle} to the allowlist.`);
      await friend.mustCreate({ invite: [main.handle] });
    },
  },
  'Take somebody off the allowlist': {
    who: 'owner',
    policy: 'allowlist',
    presses: 3,
    async do({ hand, main, another }) {
      const friend = await another('friend');
      await main.post(`/agents/${main.owner}/main/allowlist`, { entries: [friend.handle] });
      await hand.press('link', 'main');
      await hand.press('link', 'Allowlist');
      await hand.press('button', `Remove ${friend.handle}`);
      await hand.see('Removed from the allowlist.');
      expect((await friend.post('/sessions', { invite: [main.handle] })).status).toBe(404);
    },
  },
  'Block an agent': {
    who: 'owner',
    presses: 3,
    elsewhere: 5,
    async do({ hand, main, another }) {
      const spammer = await another('spammer');
      await hand.press('link', 'main');
      await hand.press('link', 'Blocks');
      await hand.type('Block an agent', spammer.handle);
      await hand.press('button', 'Block');
      await hand.see(/^Blocked @/);
      expect((await spammer.post('/sessions', { invite: [main.handle] })).status).toBe(404);
    },
  },
  'Lift a block': {
    who: 'owner',
    presses: 3,
    async do({ hand, main, another }) {
      const other = await another('other');
      await main.post('/blocks', { handle: other.handle });
      await hand.press('link', 'main');
      await hand.press('link', 'Blocks');
      await hand.press('button', `Unblock ${other.handle}`);
      await hand.see('The block was lifted.');
      await other.mustCreate({ invite: [main.handle] });
    },
  },
  'Pause an agent, and resume it': {
    who: 'owner',
    presses: 3,
    async do({ hand }) {
      await hand.press('link', 'main');
      await hand.press('button', 'Pause');
      await hand.see('The agent is paused');
      await hand.press('button', 'Resume');
      await hand.see('The agent can be invited again.');
    },
  },
  'Say what an agent is for': {
    who: 'owner',
    presses: 3,
    async do({ hand }) {
      await hand.press('link', 'main');
      await hand.press('link', 'Profile');
      await hand.type('Description', 'Plans releases.');
      await hand.press('button', 'Save profile');
      await hand.see('Your changes were saved.');
    },
  },
  'Join a session that an agent is invited to': {
    who: 'owner',
    presses: 2,
    async do({ hand, main, another, page }) {
      const other = await another('other');
      const id = await other.mustCreate({ topic: 'Plans', invite: [main.handle] });
      await page.reload();
      await hand.press('link', /^Needs you/);
      await hand.press('button', /^Join/);
      await hand.see('Your agent has joined the session.');
      expect((await main.get(`/sessions/${id}/events?after_sequence=0`)).status).toBe(200);
    },
  },
  'Decline an invitation': {
    who: 'owner',
    presses: 2,
    async do({ hand, main, another, page }) {
      const other = await another('other');
      const id = await other.mustCreate({ topic: 'Plans', invite: [main.handle] });
      await page.reload();
      await hand.press('link', /^Needs you/);
      await hand.press('button', /^Decline/);
      await until('it is declined', async () => JSON.stringify(await other.mustReplay(id)).includes('session.left'));
    },
  },
  'Allow a stranger who knocked': {
    who: 'owner',
    policy: 'hold',
    presses: 2,
    async do({ hand, main, another, page }) {
      const stranger = await another('stranger');
      expect((await stranger.post('/sessions', { invite: [main.handle] })).status).toBe(404);
      await page.reload();
      await hand.press('link', /^Needs you/);
      await hand.press('button', /^Allow/);
      await until(
        'it is allowed',
        async () => (await stranger.post('/sessions', { invite: [main.handle] })).status === 201,
      );
    },
  },
  'Start a session with an agent': {
    who: 'owner',
    presses: 3,
    async do({ hand, another }) {
      const other = await another('other');
      await hand.press('link', 'Sessions');
      await hand.press('link', 'New session');
      await hand.type('To', other.handle);
      await hand.type('Topic (optional)', 'Launch');
      await hand.type('First message (optional)', 'Are you there?');
      await hand.press('button', 'Start session');
      await hand.see('The session was started.');
      const { sessions } = (await other.get('/sessions')).json as { sessions: { id: string }[] };
      expect(sessions).toHaveLength(1);
      const id = String(sessions[0]?.id);
      await other.mustJoin(id);
      expect(JSON.stringify(await other.mustReplay(id))).toContain('Are you there?');
    },
  },
  'Answer a question with one press': {
    who: 'owner',
    presses: 3,
    async do({ hand, talk }) {
      const { id, other } = await talk('Release');
      await other.post(`/sessions/${id}/messages`, { content: 'Deploy?', metadata: { choices: ['yes', 'no'] } });
      await hand.press('link', 'Sessions');
      await hand.press('link', 'Release');
      await hand.press('button', 'yes');
      await until('it is answered', async () => JSON.stringify(await other.mustReplay(id)).includes('"content":"yes"'));
    },
  },
  'Answer a question in a session that the agent has not joined': {
    who: 'owner',
    presses: 2,
    async do({ hand, main, newAgent }) {
      const phone = await newAgent('phone');
      const question = { content: 'Deploy?', metadata: { choices: ['yes', 'no'] } };
      const id = await main.mustCreate({ invite: [phone], initial_message: question });
      await hand.press('link', /^Needs you/);
      await hand.see('Deploy?');
      await hand.press('button', /^yes/);
      await hand.see('Your answer was sent.');
      expect(JSON.stringify(await main.mustReplay(id))).toContain('"content":"yes"');
    },
  },
  'Write to a session as an agent': {
    who: 'owner',
    presses: 3,
    async do({ hand, talk }) {
      const { id, other } = await talk('Release');
      await hand.press('link', 'Sessions');
      await hand.press('link', 'Release');
      await hand.type('Message', 'On Tuesday.');
      await hand.press('button', 'Send');
      await until('it is sent', async () => JSON.stringify(await other.mustReplay(id)).includes('On Tuesday.'));
    },
  },
  'Answer one message in particular': {
    who: 'owner',
    presses: 4,
    async do({ hand, talk }) {
      const { id, other } = await talk('Release');
      await hand.press('link', 'Sessions');
      await hand.press('link', 'Release');
      await hand.press('link', /^Reply to message 3/);
      await hand.see(/In reply to|Replying to|Cancel reply/);
      await hand.type('Message', 'On Tuesday.');
      await hand.press('button', 'Send');
      const last = async () => field((await other.mustReplay(id)).at(-1), 'payload');
      await until('it is sent', async () => JSON.stringify(await last()).includes('in_reply_to'));
    },
  },
  'Send a file': {
    who: 'owner',
    presses: 4,
    async do({ hand, talk }) {
      const { id, other } = await talk('Release');
      await hand.press('link', 'Sessions');
      await hand.press('link', 'Release');
      await hand.attach('Attach files', {
        name: 'notes.md',
        mimeType: 'text/markdown',
        buffer: Buffer.from('# Notes'),
      });
      await hand.press('button', 'Send');
      await until('it is sent', async () => JSON.stringify(await other.mustReplay(id)).includes('notes.md'));
    },
  },
  'Bring another agent into a session': {
    who: 'owner',
    presses: 4,
    async do({ hand, talk, another }) {
      const third = await another('third');
      await talk('Release');
      await hand.press('link', 'Sessions');
      await hand.press('link', 'Release');
      await hand.press('details', /participants/);
      await hand.type('Invite agents', third.handle);
      await hand.press('button', 'Invite');
      await until('it is invited', async () => JSON.stringify((await third.get('/sessions')).json).includes('Release'));
    },
  },
  'Block somebody from within a session': {
    who: 'owner',
    presses: 5,
    async do({ hand, talk, main }) {
      const { other } = await talk('Release');
      await hand.press('link', 'Sessions');
      await hand.press('link', 'Release');
      await hand.press('details', /participants/);
      await hand.press('link', /^Block or allow/);
      await hand.press('button', 'Block');
      await until('it is blocked', async () => JSON.stringify((await main.get('/blocks')).json).includes(other.handle));
    },
  },
  'End a session': {
    who: 'owner',
    presses: 5,
    async do({ hand, talk }) {
      await talk('Release');
      await hand.press('link', 'Sessions');
      await hand.press('link', 'Release');
      await hand.press('details', /participants/);
      await hand.press('link', 'End session…');
      await hand.press('button', 'End session');
      await hand.see('The session has ended.');
    },
  },
  'Leave a session': {
    who: 'owner',
    presses: 5,
    async do({ hand, talk }) {
      const { id, other } = await talk('Release');
      await hand.press('link', 'Sessions');
      await hand.press('link', 'Release');
      await hand.press('details', /participants/);
      await hand.press('link', 'Leave session…');
      await hand.press('button', /^Leave/);
      await until('it has left', async () => JSON.stringify(await other.mustReplay(id)).includes('session.left'));
    },
  },
  'Reopen a session that has ended': {
    who: 'owner',
    presses: 3,
    async do({ hand, talk }) {
      const { id, other } = await talk('Release');
      await other.mustEnd(id);
      await hand.press('link', 'Sessions');
      await hand.press('link', 'Release');
      await hand.press('button', 'Reopen');
      await until('it is active', async () => field((await other.get(`/sessions/${id}`)).json, 'state') === 'active');
    },
  },
  'Find out which session said something': {
    who: 'owner',
    presses: 3,
    async do({ hand, talk, main }) {
      await talk('Lunch');
      const { id, other } = await talk('Release');
      await other.mustSend(id, 'The codename is bluebird.');
      await main.mustSend(id, 'Noted.');
      await hand.press('link', 'Search');
      await hand.type('Words in messages, topics, or agents', 'bluebird');
      await hand.press('button', 'Search');
      await hand.press('link', 'Release');
      await hand.see('The codename is bluebird.');
    },
  },
  'See the sessions with one agent': {
    who: 'owner',
    presses: 3,
    async do({ hand, talk, page }) {
      await talk('Lunch');
      const { other } = await talk('Release');
      await hand.press('link', 'Sessions');
      await hand.press('details', 'Filter');
      await hand.type('With', other.handle);
      await hand.press('button', 'Show');
      await until('one is left', async () => (await page.getByRole('link', { name: 'Lunch' }).count()) === 0);
      await hand.see('Release');
    },
  },
  'See whether a message arrived': {
    who: 'owner',
    presses: 2,
    async do({ hand, talk, main }) {
      const { id, other } = await talk('Release');
      await main.mustSend(id, 'Did you get this?');
      await hand.press('link', 'Sessions');
      await hand.press('link', 'Release');
      await hand.see(/waiting for/i);
      await hand.see(other.handle);
    },
  },
  'Keep a copy of a session': {
    who: 'owner',
    presses: 4,
    async do({ hand, talk, page }) {
      const { id } = await talk('Release');
      await hand.press('link', 'Sessions');
      await hand.press('link', 'Release');
      await hand.press('details', /participants/);
      const download = page.waitForEvent('download');
      await hand.press('link', 'Download session');
      const lines = (await readFile(await (await download).path(), 'utf8')).trim().split('\n');
      expect(lines.map((line) => field(JSON.parse(line), 'sequence'))).toEqual([1, 2, 3]);
      expect((await download).suggestedFilename()).toBe(`${id}.jsonl`);
    },
  },
  'Give a program its own credential': {
    who: 'owner',
    presses: 3,
    elsewhere: 6,
    async do({ hand, main }) {
      await hand.press('link', 'Credentials');
      await hand.press('link', 'New API credential');
      await hand.type('Name', 'Nightly');
      await hand.pick('Acts as', main.handle);
      await hand.press('button', 'Create API credential');
      await hand.see(/^asp_cs_/);
    },
  },
  'Change the secret of a credential': {
    who: 'owner',
    presses: 4,
    async do({ hand }) {
      await hand.press('link', 'Credentials');
      await hand.press('link', /added by the operator/);
      await hand.press('link', 'New secret…');
      await hand.press('button', 'Create new secret');
      await hand.see(/^asp_cs_/);
    },
  },
  'Revoke a credential': {
    who: 'owner',
    presses: 4,
    elsewhere: 5,
    async do({ hand, main }) {
      await hand.press('link', 'Credentials');
      await hand.press('link', /added by the operator/);
      await hand.press('link', 'Revoke this API credential…');
      await hand.press('button', 'Revoke API credential');
      await hand.see(/The API credential was revoked/);
      await expect(main.token('ws')).rejects.toThrow('401');
    },
  },
  'Disconnect an app': {
    who: 'member',
    presses: 3,
    elsewhere: 6,
    async do({ hand, connectApp, page }) {
      const app = await connectApp('Planner');
      await page.reload();
      await hand.press('link', 'Apps');
      await hand.press('link', /^Disconnect .*Planner/);
      await hand.press('button', 'Disconnect');
      await hand.see('The app was disconnected');
      expect(await app.isConnected()).toBe(false);
    },
  },
  'Change the password': {
    who: 'member',
    presses: 3,
    elsewhere: 4,
    async do({ hand, person }) {
      await hand.press('button', `Account: ${person.username}`);
      await hand.press('link', 'Settings');
      await hand.type('Current password', person.password);
      await hand.type('New password', FRESH_PASSWORD);
      await hand.press('button', 'Change password');
      await hand.see('Your password was changed.');
    },
  },
  'Sign out every other browser': {
    who: 'member',
    presses: 3,
    elsewhere: 5,
    async do({ hand, person }) {
      await hand.press('button', `Account: ${person.username}`);
      await hand.press('link', 'Settings');
      await hand.press('button', 'Sign out others');
      await hand.see('All other browsers were signed out.');
    },
  },
  'See what happened to the account': {
    who: 'member',
    presses: 3,
    elsewhere: 3,
    async do({ hand, person }) {
      await hand.press('button', `Account: ${person.username}`);
      await hand.press('link', 'Settings');
      await hand.press('link', 'See your account activity');
      await hand.see(/Signed up|Account created|Signed in/);
    },
  },
  'Take all data along': {
    who: 'member',
    presses: 3,
    elsewhere: 5,
    async do({ hand, person, page }) {
      await hand.press('button', `Account: ${person.username}`);
      await hand.press('link', 'Settings');
      const download = page.waitForEvent('download');
      await hand.press('button', 'Download your data');
      const data: unknown = JSON.parse(await readFile(await (await download).path(), 'utf8'));
      expect(JSON.stringify(data)).toContain(person.username);
    },
  },
  'Delete the account': {
    who: 'member',
    presses: 4,
    elsewhere: 5,
    async do({ hand, person }) {
      await hand.press('button', `Account: ${person.username}`);
      await hand.press('link', 'Settings');
      await hand.press('link', 'Delete your account…');
      await hand.type(/^Type your username/, person.username);
      await hand.type('Password', person.password);
      await hand.press('button', 'Delete account');
      await hand.see(/deleted/i);
    },
  },
  'See whether the service is well': {
    who: 'operator',
    presses: 2,
    async do({ hand, person }) {
      await hand.press('button', `Account: ${person.username}`);
      await hand.press('link', 'Operator');
      await hand.see('Ready');
      await hand.see('Requests a minute');
    },
  },
  'See what needs space': {
    who: 'operator',
    presses: 2,
    async do({ hand, person }) {
      await hand.press('button', `Account: ${person.username}`);
      await hand.press('link', 'Operator');
      await hand.see('Storage');
      await hand.see('Database');
      await hand.see('Attachments');
    },
  },
  'Find an account': {
    who: 'operator',
    presses: 5,
    async do({ hand, person, guest }) {
      await toAccount(hand, person, guest);
      await hand.see('Usage');
    },
  },
  'Suspend an account': {
    who: 'operator',
    presses: 6,
    elsewhere: 6,
    async do({ hand, person, guest, stateOf }) {
      await toAccount(hand, person, guest);
      await hand.press('button', 'Suspend account');
      await until('it is suspended', async () => (await stateOf(guest)).state === 'suspended');
    },
  },
  'Let a suspended account in again': {
    who: 'operator',
    presses: 6,
    elsewhere: 6,
    async do({ hand, person, guest, stateOf, change }) {
      await change(guest, { suspended: true });
      await toAccount(hand, person, guest);
      await hand.press('button', 'Resume account');
      await until('it is active', async () => (await stateOf(guest)).state === 'active');
    },
  },
  'Trust an account': {
    who: 'operator',
    presses: 6,
    elsewhere: 6,
    async do({ hand, person, guest, stateOf }) {
      await toAccount(hand, person, guest);
      await hand.press('button', 'Trust account');
      await until('it is trusted', async () => (await stateOf(guest)).tier === 'trusted');
    },
  },
  'Pause an agent of somebody else': {
    who: 'operator',
    presses: 6,
    async do({ hand, person, guest }) {
      await toAccount(hand, person, guest);
      await hand.press('button', `Pause @${guest.username}.main`);
      await hand.see('Resume');
    },
  },
  'Help somebody who forgot the password': {
    who: 'operator',
    presses: 6,
    elsewhere: 6,
    async do({ hand, person, guest }) {
      await toAccount(hand, person, guest);
      await hand.press('button', 'Create link');
      await hand.see(/^http:\/\/127\.0\.0\.1:\d+\/\S+/);
    },
  },
  'Remove an account': {
    who: 'operator',
    presses: 7,
    elsewhere: 7,
    async do({ hand, person, guest }) {
      await toAccount(hand, person, guest);
      await hand.press('link', 'Remove this account…');
      await hand.press('button', 'Remove account');
      await hand.see('The account was removed.');
    },
  },
  'Invite somebody to sign up': {
    who: 'operator',
    presses: 4,
    async do({ hand, person }) {
      await hand.press('button', `Account: ${person.username}`);
      await hand.press('link', 'Operator');
      await hand.press('link', 'Invitations');
      await hand.press('button', 'Create invitation');
      await hand.see(/^http:\/\/127\.0\.0\.1:\d+\/\S+invitation=/);
    },
  },
  'Rotate the signing keys': {
    who: 'operator',
    presses: 4,
    async do({ hand, person }) {
      await hand.press('button', `Account: ${person.username}`);
      await hand.press('link', 'Operator');
      await hand.press('link', 'Rotate the keys…');
      await hand.press('button', 'Rotate keys');
      await hand.see(/new (signing )?key/);
    },
  },
  'See who did what': {
    who: 'operator',
    presses: 3,
    async do({ hand, person, guest, change }) {
      await change(guest, { suspended: true });
      await hand.press('button', `Account: ${person.username}`);
      await hand.press('link', 'Operator');
      await hand.press('link', 'Log');
      await hand.see('Account suspended');
      await hand.see(guest.username);
    },
  },
};

async function toAccount(hand: Hand, { username }: Person, guest: Person): Promise<void> {
  await hand.press('button', `Account: ${username}`);
  await hand.press('link', 'Operator');
  await hand.press('link', 'Accounts');
  await hand.type('Beginning of the username', guest.username);
  await hand.press('button', 'Search');
  await hand.press('link', guest.username);
}

describe.skipIf(noChromium !== undefined)(`A task in a real browser ${noChromium ?? ''}`, () => {
  let stage: Stage;
  let browser: Browser;
  beforeAll(async () => {
    stage = await openStage({ areLimitsOn: false });
    // The first page of a service without accounts asks the visitor to create one.
    await stage.enter('first');
    browser = await launchChromium();
  });
  afterAll(async () => {
    await browser?.close();
    await stage?.close();
  });

  const change = ({ username }: Person, body: object): Promise<unknown> =>
    operate(stage.operator, 'PATCH', `/accounts/${username}`, body);

  async function signInElsewhere(person: Person): Promise<void> {
    const elsewhere = openBrowser();
    await signIn(elsewhere, await elsewhere.open(`${stage.web}/dashboard`), person);
  }

  async function perform(
    { who, policy = 'open', presses, elsewhere = presses, do: act }: Task,
    [way, size]: (typeof WAYS)[number],
  ): Promise<void> {
    const { desk, operator, web } = stage;
    const create = (name: string, options?: AgentOptions) => createActor(desk.place, operator, name, options);
    const context = await browser.newContext(size === 'phone' ? PHONE : DESKTOP);
    try {
      const main = await create('ada', { policy });
      const visitor = who === 'owner' ? await stage.enterLocally(main.owner) : await stage.enter(who);
      const person = who === 'visitor' ? newPerson(who) : visitor;
      if (who === 'operator') await change(person, { operator: true });
      if (who !== 'visitor') {
        if (who === 'member') await signInElsewhere(person);
        const cookies = [...visitor.browser.cookies].map(([name, value]) => ({ name, value, url: web }));
        await context.addCookies(cookies);
      }
      const page = await context.newPage();
      page.setDefaultTimeout(PATIENCE_MS);
      await page.goto(`${web}/dashboard`);
      const hand = createHand(page, way, size === 'phone');
      await act({
        hand,
        page,
        main,
        person,
        guest: who === 'operator' ? await stage.enter('guest') : person,
        another: create,
        newAgent: (name) => visitor.createAgent(name),
        change,
        stateOf: async ({ username }) =>
          (await operate(operator, 'GET', `/accounts/${username}`)) as { state: string; tier: string },
        async talk(topic) {
          const other = await create('other');
          const id = await main.mustCreate({ topic, invite: [other.handle] });
          await other.mustJoin(id);
          await other.mustSend(id, 'When is the release?');
          return { id, other };
        },
        async connectApp(name) {
          const { clientId, refreshToken } = await stage.connect(visitor, name);
          return { isConnected: async () => (await refresh(desk.place, clientId, refreshToken)).status === 200 };
        },
      });
      expect(hand.presses).toBeLessThanOrEqual(Math.min(presses, elsewhere));
    } finally {
      await context.close();
    }
  }

  describe.each(Object.entries(TASKS))('%s:', (_, task) => {
    const index = Object.values(TASKS).indexOf(task);
    // Testing every task in all ways takes minutes. By default, each is tested in one way, and some in each way.
    const ways = ALL_WAYS ? WAYS : [WAYS[index % WAYS.length] ?? WAYS[0]];
    it.each(ways)('works with the %s on a %s', (...way) => perform(task, way));
  });
});
