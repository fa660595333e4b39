import { FOUNDATION } from '../style.js';

/** The look of the dashboard: the foundation of all pages, then the frame, then what its pages are made of. */
export const DASHBOARD_STYLE = `${FOUNDATION}
body { min-height: 100vh; min-height: 100dvh; display: flex; flex-direction: column; }
.skip { position: absolute; inset-inline-start: 1rem; top: -4rem; padding: 0.625rem 1rem; border-radius: 0 0 0.5rem 0.5rem; background: var(--ink); color: var(--paper); z-index: 3; }
.skip:focus { top: 0; }

.bar { position: sticky; top: 0; z-index: 2; background: var(--sheet); border-bottom: 1px solid var(--line); }
.bar-inside, .page, .foot { width: 100%; max-width: 62rem; margin-inline: auto; padding-inline: clamp(1rem, 4vw, 2rem); }
.bar-inside { display: flex; align-items: stretch; gap: 0.25rem 1.75rem; min-height: 3.75rem; }
.brand { display: flex; align-items: center; gap: 0.625rem; color: inherit; text-decoration: none; letter-spacing: -0.02em; font-size: 1.0625rem; }
.brand svg { width: 1.75rem; height: 1.75rem; flex: none; }
.bar nav { flex: 1; min-width: 0; }
.bar ul { list-style: none; display: flex; gap: 0.125rem; height: 100%; }
.bar nav a {
  display: flex; align-items: center; height: 100%; min-height: 2.75rem; padding-inline: 0.75rem; font-weight: 500; font-size: 0.9375rem;
  color: var(--soft); text-decoration: none; border-block: 3px solid transparent; border-top: 0; padding-top: 3px;
}
.bar nav a:hover { color: var(--ink); }
.bar nav a[aria-current] { color: var(--ink); font-weight: 600; border-bottom-color: var(--accent); }
.account { position: relative; display: flex; align-items: center; }
.account summary { display: flex; align-items: center; gap: 0.5rem; padding: 0.25rem 0.5rem; border-radius: 2rem; color: var(--ink); font-weight: 500; font-size: 0.9375rem; list-style: none; min-height: 2.75rem; }
.account summary::-webkit-details-marker { display: none; }
.account summary:hover { background: var(--raised); text-decoration: none; }
.account[open] summary { margin: 0; background: var(--raised); }
.account-name { max-width: 10rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.small-face { width: 2rem; height: 2rem; font-size: 0.875rem; }
.menu {
  position: absolute; inset-inline-end: 0; top: calc(100% - 0.25rem); width: 16rem; max-width: calc(100vw - 2rem); padding: 1rem; display: flex; flex-direction: column; gap: 0.875rem;
  background: var(--sheet); border: 1px solid var(--line); border-radius: var(--radius); box-shadow: var(--shadow);
}
.menu .button { width: 100%; }

.page { flex: 1; padding-block: clamp(1.5rem, 5vw, 3rem) 3rem; }
.page:focus { outline: none; }
.foot { padding-block: 1.25rem; color: var(--soft); font-size: 0.8125rem; }
.head { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: 0.75rem 1.5rem; }
`;
