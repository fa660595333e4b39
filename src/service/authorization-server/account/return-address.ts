import { PATH } from '../metadata.js';

const SEGMENT = '[A-Za-z0-9_~%@-][A-Za-z0-9_.~%@-]*';
const RETURN_ADDRESS = new RegExp(`^${PATH.dashboard}(?:/${SEGMENT})*(?:\\?[A-Za-z0-9_.~%=&-]*)?$`);
const RETURN_ADDRESS_MAX_LENGTH = 500;

/** Where somebody goes after signing in: a page of the dashboard, and nowhere else whatever was asked for. */
export function readReturnAddress(text: string | undefined): string {
  if (text === undefined || text.length > RETURN_ADDRESS_MAX_LENGTH) return PATH.dashboard;
  return RETURN_ADDRESS.test(text) ? text : PATH.dashboard;
}

/** The sign-in page that leads on to `address`. */
export function signInFor(address: string): string {
  return `${PATH.signIn}?return_to=${encodeURIComponent(address)}`;
}
