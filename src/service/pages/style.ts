/** What all pages share: colours and sizes first, then each part once. */
export const FOUNDATION = `
:root {
  color-scheme: light dark;
  --paper: #f4f3ee; --sheet: #fffefb; --raised: #f8f7f2; --ink: #1b1d1a; --soft: #5b6059; --line: #dedcd2; --edge: #8b8f86;
  --accent: #0b6a4d; --accent-strong: #085139; --on-accent: #ffffff; --tint: #e6f2ec;
  --bad: #a8261c; --bad-strong: #861c14; --on-bad: #ffffff; --bad-tint: #fcedea; --note: #75510b; --note-tint: #fbf3df; --ring: #1c64d1;
  --radius: 0.75rem; --shadow: 0 1px 2px rgb(30 32 28 / 6%), 0 12px 32px -12px rgb(30 32 28 / 18%);
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #111311; --sheet: #1a1d1a; --raised: #222622; --ink: #edefea; --soft: #a4aba2; --line: #323731; --edge: #737b71;
    --accent: #55d3a2; --accent-strong: #7be2ba; --on-accent: #052519; --tint: #17322a;
    --bad: #ff9d92; --bad-strong: #ffbcb4; --on-bad: #33100c; --bad-tint: #3a1d1a; --note: #f0c674; --note-tint: #332a16; --ring: #8fbaff;
    --shadow: 0 1px 2px rgb(0 0 0 / 40%), 0 16px 40px -16px rgb(0 0 0 / 70%);
  }
}
*, *::before, *::after { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif;
}
h1, h2, p, ul, dl, dd, fieldset, legend { margin: 0; padding: 0; }
h1 { font-size: 1.5rem; line-height: 1.25; font-weight: 650; letter-spacing: -0.015em; text-wrap: balance; }
h2, legend { font-size: 0.9375rem; line-height: 1.4; font-weight: 650; }
p { text-wrap: pretty; }
bdi, .wrap { overflow-wrap: anywhere; }
a { color: var(--accent); text-underline-offset: 0.2em; }
code, .mono { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; font-size: 0.875em; }
:focus-visible { outline: 3px solid var(--ring); outline-offset: 2px; }
.soft { color: var(--soft); }
.small { font-size: 0.875rem; }
.stack { display: flex; flex-direction: column; gap: 1.5rem; }
.stack-tight { display: flex; flex-direction: column; gap: 0.5rem; }
.hidden-label { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }

.notice { display: flex; gap: 0.625rem; padding: 0.75rem 0.875rem; border-radius: var(--radius); font-size: 0.875rem; background: var(--note-tint); color: var(--note); }
.notice svg { width: 1.125rem; height: 1.125rem; flex: none; margin-top: 0.1rem; }
.problem { padding: 0.875rem 1rem; border: 1px solid var(--bad); border-inline-start-width: 0.3rem; border-radius: var(--radius); background: var(--bad-tint); }
.problem h2 { color: var(--bad); }
.problem ul { padding-inline-start: 1.1rem; margin-top: 0.25rem; }
.problem a { color: inherit; }

.ticks { list-style: none; display: flex; flex-direction: column; gap: 0.5rem; font-size: 0.9375rem; }
.ticks li { display: flex; gap: 0.625rem; }
.ticks svg { width: 1.125rem; height: 1.125rem; flex: none; margin-top: 0.17rem; color: var(--accent); }

.field { display: flex; flex-direction: column; gap: 0.25rem; min-width: 0; }
.field label { font-weight: 600; font-size: 0.9375rem; }
.field .hint { color: var(--soft); font-size: 0.875rem; }
.mistake { display: block; color: var(--bad); font-size: 0.875rem; font-weight: 600; }
fieldset > .mistake { margin-bottom: 0.5rem; }
input[type="text"], input[type="password"], textarea, select {
  width: 100%; min-height: 2.875rem; padding: 0.5rem 0.75rem; font: inherit; color: inherit;
  background: var(--sheet); border: 1px solid var(--edge); border-radius: 0.5rem;
}
input[aria-invalid="true"], textarea[aria-invalid="true"], select[aria-invalid="true"] { border-color: var(--bad); box-shadow: inset 0 0 0 1px var(--bad); }
.joined { display: flex; align-items: center; background: var(--sheet); border: 1px solid var(--edge); border-radius: 0.5rem; }
.joined span { max-width: 55%; padding-inline-start: 0.75rem; color: var(--soft); overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.joined input[type="text"] { flex: 1; min-width: 4rem; padding-inline-start: 0.125rem; border: 0; box-shadow: none; background: none; }
.joined:has([aria-invalid="true"]) { border-color: var(--bad); box-shadow: inset 0 0 0 1px var(--bad); }
.joined:focus-within { outline: 3px solid var(--ring); outline-offset: 2px; }
.joined input:focus-visible { outline: none; }

fieldset { border: 0; min-width: 0; }
legend { margin-bottom: 0.5rem; }
.choices { display: flex; flex-direction: column; gap: 0.5rem; }
.choices.many { max-height: min(26rem, 60vh); overflow-y: auto; padding: 0.5rem; background: var(--raised); border: 1px solid var(--line); border-radius: calc(var(--radius) + 0.25rem); }
.choice { border: 1px solid var(--line); border-radius: var(--radius); background: var(--sheet); }
.choice > label { display: flex; align-items: center; gap: 0.75rem; padding: 0.75rem 0.875rem; cursor: pointer; }
.choice:hover { border-color: var(--edge); }
.choice:has(input[type="radio"]:checked) { border-color: var(--accent); box-shadow: inset 0 0 0 1px var(--accent); background: var(--tint); }
.choice:has(input[type="radio"]:focus-visible) { outline: 3px solid var(--ring); outline-offset: 2px; }
.choice input[type="radio"] { width: 1.125rem; height: 1.125rem; margin: 0; flex: none; accent-color: var(--accent); }
.choice input[type="radio"]:focus-visible { outline: none; }
.face { width: 2.25rem; height: 2.25rem; flex: none; display: grid; place-items: center; border-radius: 50%; background: var(--tint); color: var(--accent); font-weight: 650; }
.choice:has(input[type="radio"]:checked) .face { background: var(--accent); color: var(--on-accent); }
.face svg { width: 1.125rem; height: 1.125rem; }
.who { min-width: 0; display: flex; flex-direction: column; line-height: 1.35; }
.who b { font-weight: 600; overflow-wrap: anywhere; }
.who .mono { color: var(--soft); overflow-wrap: anywhere; }
.more { display: flex; flex-direction: column; gap: 1rem; padding: 0.25rem 0.875rem 1rem; }
@supports selector(:has(*)) { .choice:not(:has(input[type="radio"]:checked)) .more { display: none; } }

.actions { display: grid; grid-template-columns: 1fr 1fr; gap: 0.75rem; }
.actions.single { grid-template-columns: 1fr; }
button { font: inherit; cursor: pointer; }
.button { display: inline-flex; align-items: center; justify-content: center; gap: 0.5rem; min-height: 2.875rem; padding: 0.5rem 1rem; text-decoration: none; border: 1px solid transparent; border-radius: 0.5rem; font-weight: 600; transition: background-color 120ms, border-color 120ms; }
.button.primary { background: var(--accent); color: var(--on-accent); }
.button.primary:hover { background: var(--accent-strong); }
.button.plain { background: transparent; color: var(--ink); border-color: var(--edge); }
.button.plain:hover { background: var(--raised); }
.button.danger { background: var(--bad); color: var(--on-bad); }
.button.danger:hover { background: var(--bad-strong); }
.link { padding: 0.25rem 0; border: 0; background: none; color: var(--accent); text-decoration: underline; text-underline-offset: 0.2em; }

.rule { border: 0; border-top: 1px solid var(--line); margin: 0; width: 100%; }
details > summary { cursor: pointer; font-weight: 600; padding: 0.375rem 0; min-height: 2.25rem; color: var(--accent); }
details > summary:hover { text-decoration: underline; text-underline-offset: 0.2em; }
details[open] > summary { margin-bottom: 0.75rem; }

@media (max-width: 22rem) { .actions { grid-template-columns: 1fr; } }
@media (prefers-reduced-motion: reduce) { * { transition: none !important; } }
@media (forced-colors: active) { .choice:has(input[type="radio"]:checked) { outline: 2px solid Highlight; } }
`;

/** The look of a page that is one sheet: sign-in, consent, a message. It is sent inside the page. */
export const STYLE = `${FOUNDATION}
body {
  min-height: 100vh; min-height: 100dvh; display: flex; flex-direction: column; align-items: center;
  padding: clamp(1rem, 5vh, 4rem) 1rem 2rem;
}
.masthead { width: 100%; max-width: 28rem; display: flex; align-items: center; gap: 0.625rem; padding: 0 0.25rem 1rem; }
.masthead svg { width: 1.75rem; height: 1.75rem; flex: none; }
.masthead strong { font-size: 1.0625rem; font-weight: 700; letter-spacing: -0.02em; }
.masthead .place { margin-inline-start: auto; color: var(--soft); font-size: 0.8125rem; overflow-wrap: anywhere; text-align: end; }
.sheet {
  width: 100%; max-width: 28rem; padding: clamp(1.25rem, 6vw, 2rem); background: var(--sheet);
  border: 1px solid var(--line); border-radius: calc(var(--radius) + 0.25rem); box-shadow: var(--shadow);
}
.below { width: 100%; max-width: 28rem; padding: 1rem 0.25rem 0; color: var(--soft); font-size: 0.875rem; }
.below form { display: flex; flex-wrap: wrap; gap: 0.25rem 0.75rem; align-items: baseline; justify-content: space-between; }

@media (max-width: 30rem) {
  body { padding: 1rem 0 1.5rem; background: var(--sheet); }
  .masthead, .below { padding-inline: 1.25rem; }
  .sheet { border-width: 1px 0; border-radius: 0; box-shadow: none; padding-inline: 1.25rem; }
}
`;
