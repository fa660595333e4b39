import { FOUNDATION } from '../style.js';
import { TRANSCRIPT_STYLE } from './transcript-style.js';

/** The look of the dashboard: the foundation of all pages, then the frame, then what its pages are made of. */
export const DASHBOARD_STYLE = `${FOUNDATION}
html { scroll-padding-top: 9rem; }
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
  color: var(--soft); text-decoration: none; white-space: nowrap; border-block: 3px solid transparent; border-top: 0; padding-top: 3px;
}
.bar nav a:hover { color: var(--ink); }
.bar nav a[aria-current] { color: var(--ink); font-weight: 600; border-bottom-color: var(--accent); }
.account { display: flex; align-items: center; align-self: center; gap: 0.5rem; padding: 0.25rem 0.5rem; border: 0; border-radius: 2rem; background: none; color: var(--ink); font-weight: 500; font-size: 0.9375rem; min-height: 2.75rem; }
.account::after { content: ""; width: 0.4rem; height: 0.4rem; margin: -0.2rem 0.25rem 0; border: solid var(--soft); border-width: 0 2px 2px 0; transform: rotate(45deg); }
.account:hover, .account:has(+ .menu:popover-open) { background: var(--raised); }
.account-name { max-width: 10rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.small-face { width: 2rem; height: 2rem; font-size: 0.875rem; }
.menu {
  position: fixed; inset: 3.5rem calc(max(0px, (100% - 62rem) / 2) + clamp(1rem, 4vw, 2rem)) auto auto; margin: 0; width: 16rem; max-width: calc(100vw - 2rem); padding: 1rem;
  color: var(--ink); background: var(--sheet); border: 1px solid var(--line); border-radius: var(--radius); box-shadow: var(--shadow);
}
.menu:popover-open { display: flex; flex-direction: column; gap: 0.875rem; }
.menu .button { width: 100%; }

.page { flex: 1; padding-block: clamp(1.25rem, 4vw, 2.5rem) 3rem; }
.page:focus { outline: none; }
.foot { padding-block: 1.25rem; color: var(--soft); font-size: 0.8125rem; }

.head { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: 1rem 1.5rem; }
.head .stack-tight { gap: 0.25rem; flex: 1 1 20rem; }
.page h1 { font-size: 1.625rem; }
.page h2 { font-size: 1rem; }
.trail { margin-block-end: -0.75rem; font-size: 0.875rem; }
.trail a { display: inline-flex; align-items: center; min-height: 1.75rem; color: var(--soft); text-decoration: none; }
.trail a::before { content: "←" / ""; margin-inline-end: 0.5rem; }
.trail bdi { max-width: min(24rem, 70vw); overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.trail a:hover { color: var(--ink); text-decoration: underline; }
.identity { display: flex; flex-wrap: wrap; align-items: center; gap: 0.5rem 1rem; }
.identity h1 { line-height: 1.2; }
.identity .who { flex: 1 1 14rem; }
.large-face { width: 3.25rem; height: 3.25rem; font-size: 1.375rem; }
.grow { flex: 1; min-width: 0; }
.ink { color: var(--ink) !important; }
.narrow { max-width: 36rem; }
.measure { max-width: 44rem; }
.lines { white-space: pre-line; overflow-wrap: anywhere; }
.between { display: flex; align-items: center; justify-content: space-between; gap: 1rem; }

.tabs { border-bottom: 1px solid var(--line); overflow-x: auto; scrollbar-width: none; }
.tabs ul { list-style: none; display: flex; gap: 1.5rem; }
.tabs a { display: block; min-width: 1.5rem; padding-block: 0.625rem; text-align: center; border-bottom: 3px solid transparent; margin-bottom: -1px; color: var(--soft); font-weight: 500; font-size: 0.9375rem; text-decoration: none; white-space: nowrap; }
.tabs a:hover { color: var(--ink); }
.tabs a[aria-current] { color: var(--ink); font-weight: 600; border-bottom-color: var(--accent); }
.tabs a:focus-visible { outline-offset: -3px; }

.card { padding: clamp(1rem, 3vw, 1.5rem); background: var(--sheet); border: 1px solid var(--line); border-radius: var(--radius); }
.card .button { min-height: 2.75rem; }
.columns { display: grid; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); gap: 1.25rem; align-items: start; }
.columns > .stack { gap: 1.25rem; }
.secret { border-color: var(--accent); box-shadow: inset 0 0 0 1px var(--accent); }

.rows { list-style: none; background: var(--sheet); border: 1px solid var(--line); border-radius: var(--radius); }
.row { position: relative; display: flex; align-items: center; gap: 0.375rem 1rem; padding: 0.75rem clamp(0.875rem, 2.5vw, 1.25rem); min-height: 4rem; }
.row + .row { border-top: 1px solid var(--line); }
.row:has(.row-link):hover { background: var(--raised); }
.row:first-child { border-start-start-radius: inherit; border-start-end-radius: inherit; }
.row:first-child, .row:first-child:hover { border-radius: var(--radius) var(--radius) 0 0; }
.row:last-child { border-radius: 0 0 var(--radius) var(--radius); }
.row:only-child { border-radius: var(--radius); }
.row.tall { align-items: flex-start; }
.row-link { font-weight: 600; color: inherit; text-decoration: none; overflow-wrap: anywhere; }
.row-link::after { content: ""; position: absolute; inset: 0; border-radius: inherit; }
.row-link:focus-visible { outline: none; }
.row-link:focus-visible::after { outline: 3px solid var(--ring); outline-offset: -3px; }
.facts { display: flex; flex-direction: column; gap: 0.125rem; text-align: end; flex: none; line-height: 1.45; }
.facts .badges { justify-content: flex-end; }
.badges { display: flex; flex-wrap: wrap; gap: 0.375rem; }
.badge { padding: 0.125rem 0.625rem; border: 1px solid var(--line); border-radius: 1rem; font-size: 0.8125rem; font-weight: 500; color: var(--soft); background: var(--sheet); }
.badge.good { color: var(--accent); background: var(--tint); border-color: transparent; }
.badge.warn { color: var(--note); background: var(--note-tint); border-color: transparent; }
.pager { display: flex; gap: 0.75rem; margin-top: 1rem; }
.pager .button { min-height: 2.75rem; }

.empty { padding: clamp(1.5rem, 5vw, 2.5rem); border: 1px dashed var(--edge); border-radius: var(--radius); display: flex; flex-direction: column; gap: 0.875rem; align-items: flex-start; }
.empty p { max-width: 38rem; color: var(--soft); }
.empty .command { max-width: 100%; }
.empty .button { min-height: 2.75rem; }
.command { margin: 0; padding: 0.75rem 1rem; background: var(--raised); border: 1px solid var(--line); border-radius: 0.5rem; overflow-x: auto; font-size: 0.9375rem; }
.command code { user-select: all; }
.command .line { display: block; white-space: pre-wrap; overflow-wrap: anywhere; padding-inline-start: 1.25em; text-indent: -1.25em; }
.command .option { white-space: nowrap; }
.take { user-select: all; overflow-wrap: anywhere; font-size: 0.9375rem; }
.done { display: flex; gap: 0.625rem; padding: 0.75rem 1rem; border-radius: var(--radius); background: var(--tint); color: var(--accent); font-size: 0.9375rem; font-weight: 500; }
.done svg { width: 1.125rem; height: 1.125rem; flex: none; margin-top: 0.15rem; }
.quiet summary { color: var(--soft); font-weight: 400; font-size: 0.875rem; min-height: 1.75rem; padding-block: 0.125rem; }
.quiet .ticks { font-size: 0.875rem; gap: 0.25rem; padding-block-end: 0.25rem; }
.aside-link { display: inline-flex; align-items: center; min-height: 1.5rem; }
.quiet-danger { color: var(--bad); }

textarea { padding-block: 0.625rem; line-height: 1.5; resize: vertical; }
textarea.mono { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; font-size: 0.9375rem; }
select { padding-inline-end: 2rem; text-overflow: ellipsis; }
fieldset .hint { margin-bottom: 0.75rem; }
.add { display: grid; grid-template-columns: 1fr auto; align-items: end; gap: 0.75rem; }
.skills { display: flex; flex-direction: column; gap: 0.75rem; }
.skill { display: grid; grid-template-columns: minmax(0, 2fr) minmax(0, 3fr); gap: 0.75rem; align-items: end; }
.skill label { font-size: 0.8125rem; font-weight: 500; color: var(--soft); }
.ticks-in { display: flex; flex-direction: column; }
.tick label { display: flex; gap: 0.75rem; align-items: flex-start; padding-block: 0.5rem; cursor: pointer; font-size: 0.9375rem; }
.tick input { width: 1.125rem; height: 1.125rem; margin: 0.17rem 0 0; flex: none; accent-color: var(--accent); }
.choice b { font-size: 0.9375rem; }
.small-button, .card .small-button { min-height: 2.5rem; padding: 0.375rem 0.875rem; font-size: 0.875rem; }
.row-actions { display: flex; flex-wrap: wrap; gap: 0.75rem; }
.row form { flex: none; }
.points { padding-inline-start: 1.2rem; display: flex; flex-direction: column; gap: 0.5rem; }
.pairs { display: flex; flex-direction: column; gap: 0.625rem; font-size: 0.9375rem; }
.pairs div { display: grid; grid-template-columns: 7rem minmax(0, 1fr); gap: 0.125rem 1rem; }
.pairs dt { color: var(--soft); }

@media (max-width: 46rem) {
  .bar { position: relative; }
  .menu { position: absolute; }
  .columns { grid-template-columns: minmax(0, 1fr); }
  .bar-inside { flex-wrap: wrap; justify-content: space-between; row-gap: 0; }
  .bar nav { order: 3; flex: 0 0 100%; overflow-x: auto; scrollbar-width: none; margin-inline: calc(-1 * clamp(1rem, 4vw, 2rem)); padding-inline: calc(clamp(1rem, 4vw, 2rem) - 0.625rem); }
  .bar nav a { padding-inline: 0.625rem; }
  .bar nav a:focus-visible { outline-offset: -3px; }
  .brand { min-height: 3.25rem; }
  .facts { text-align: start; flex: 0 0 100%; padding-inline-start: 3.25rem; flex-direction: row; flex-wrap: wrap; gap: 0 1rem; }
  .row:has(.facts, .badges) { flex-wrap: wrap; }
  .row > .badges { flex: 0 0 100%; padding-inline-start: 3.25rem; }
  .row > .badges:empty { display: none; }
  .row.tall .small-button { margin-inline-start: 3.25rem; }
}
@media (max-width: 30rem) {
  .skill, .add { grid-template-columns: minmax(0, 1fr); }
  .pairs div { grid-template-columns: minmax(0, 1fr); }
  .head .button { width: 100%; }
  .row-actions .button { flex: 1 1 auto; }
  .account-name { max-width: 7rem; }
}
@media (forced-colors: active) { .bar nav a[aria-current], .tabs a[aria-current] { border-bottom-color: Highlight; } }
${TRANSCRIPT_STYLE}`;
