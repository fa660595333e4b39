import { TIME_FORMS, TWELVE_HOURS } from './time.js';

type Asset =
  | 'foundation.css'
  | 'page.css'
  | 'dashboard.css'
  | 'transcript.css'
  | 'time.js'
  | 'transcript.js'
  | 'compose.js'
  | 'copy.js'
  | 'keys.js'
  | 'lists.js'
  | 'notify.js'
  | 'palette.js'
  | 'passkey.js'
  | 'picker.js'
  | 'print.js'
  | 'push.js'
  | 'streams.js'
  | 'tabs.js'
  | 'worker.js';

/** The files in the folder `assets`, inserted by the build. */
declare const ASP_ASSETS: Readonly<Record<Asset, string>>;

/** Sign-in, consent and messages. */
export const STYLE = `${ASP_ASSETS['foundation.css']}${ASP_ASSETS['page.css']}`;

/** The dashboard. */
export const DASHBOARD_STYLE = `${ASP_ASSETS['foundation.css']}${ASP_ASSETS['dashboard.css']}${ASP_ASSETS['transcript.css']}`;

const TIME_SCRIPT = ASP_ASSETS['time.js']
  .replace('TIME_FORMS', () => JSON.stringify(TIME_FORMS))
  .replace('TWELVE_HOURS', () => JSON.stringify(TWELVE_HOURS));

/** Shows the current tab, copies commands, writes times in the reader's time zone, shares a stream with the browser's other pages, shows notifications, has keyboard shortcuts, and finds pages by their names. */
export const FRAME_SCRIPT = `${TIME_SCRIPT}${ASP_ASSETS['tabs.js']}${ASP_ASSETS['copy.js']}${ASP_ASSETS['streams.js']}${ASP_ASSETS['notify.js']}${ASP_ASSETS['keys.js']}${ASP_ASSETS['palette.js']}`;

/** Writes times in the reader's time zone and copies code, on pages for people who may not be signed in. */
export const READER_SCRIPT = `${TIME_SCRIPT}${ASP_ASSETS['copy.js']}`;

/** Updates a transcript while someone views it, and sends what they write. */
export const TRANSCRIPT_SCRIPT = `${ASP_ASSETS['transcript.js']}${ASP_ASSETS['compose.js']}`;

/** Updates a list while someone views it. */
export const LISTS_SCRIPT = ASP_ASSETS['lists.js'];

/** Copies a command from a page outside the dashboard. */
export const COPY_SCRIPT = ASP_ASSETS['copy.js'];

/** Asks the browser for a passkey. */
export const PASSKEY_SCRIPT = ASP_ASSETS['passkey.js'];

/** Narrows the list of agents on the consent page. */
export const PICKER_SCRIPT = ASP_ASSETS['picker.js'];

/** Prints a session. */
export const PRINT_SCRIPT = ASP_ASSETS['print.js'];

/** Subscribes the browser to push notifications. */
export const PUSH_SCRIPT = ASP_ASSETS['push.js'];

/** The service worker: shows push notifications while no page is open. */
export const WORKER_SCRIPT = ASP_ASSETS['worker.js'];
