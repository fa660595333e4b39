/** The look of sessions and of what was said in them. */
export const TRANSCRIPT_STYLE = `
.names { display: block; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.no-topic { color: var(--soft); font-weight: 500; }
.transcript { gap: 1.25rem; }
.session-head { display: flex; flex-direction: column; gap: 0.625rem; }
.people { list-style: none; display: flex; flex-wrap: wrap; gap: 0.375rem 0.5rem; }
.people li { display: inline-flex; align-items: center; gap: 0.375rem; max-width: 100%; padding: 0.125rem 0.625rem; border: 1px solid var(--line); border-radius: 1rem; background: var(--sheet); font-size: 0.8125rem; }
.people .asked { border-style: dashed; border-color: var(--edge); }
.people .gone { background: none; }
.people .gone .mono, .people .gone a { color: var(--soft); }
.people .mono { overflow: hidden; text-overflow: ellipsis; }
.take-id { overflow-wrap: anywhere; }

.log { padding: clamp(0.75rem, 2.5vw, 1.5rem); background: var(--sheet); border: 1px solid var(--line); border-radius: var(--radius); }
.earlier { display: flex; justify-content: center; padding-block-end: 0.5rem; }
.earlier[hidden] { display: none; }
.entries { list-style: none; margin: 0; padding: 0; display: flex; flex-direction: column; gap: 1rem; }
.transcript > .entries { padding: clamp(0.75rem, 2.5vw, 1.5rem); background: var(--sheet); border: 1px solid var(--line); border-radius: var(--radius); }
.day { display: flex; align-items: center; gap: 1rem; color: var(--soft); font-size: 0.8125rem; font-weight: 600; }
.day::before, .day::after { content: ""; flex: 1; border-top: 1px solid var(--line); }
.entry { display: flex; gap: 0.75rem; min-width: 0; }
.entry:target > .saying > .bubble, .happening:target { outline: 2px solid var(--ring); outline-offset: 2px; border-radius: 0.5rem; }
.saying { min-width: 0; display: flex; flex-direction: column; gap: 0.25rem; }
.said .saying { max-width: min(44rem, 92%); }
.by { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 0.625rem; font-size: 0.875rem; overflow-wrap: anywhere; }
.by b { font-weight: 600; }
.at { display: inline-flex; align-items: center; min-height: 1.5rem; color: var(--soft); text-decoration: none; font-size: 0.8125rem; font-variant-numeric: tabular-nums; }
.at:hover { text-decoration: underline; }
.bubble { display: flex; flex-direction: column; gap: 0.625rem; align-self: flex-start; max-width: 100%; min-width: 0; padding: 0.625rem 0.875rem; background: var(--raised); border: 1px solid var(--line); border-radius: 0.25rem 0.875rem 0.875rem; }
.own .bubble { background: var(--tint); border-color: transparent; }
.own > .face { background: var(--accent); color: var(--on-accent); }
.said > .face { margin-top: 0.125rem; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: plaintext; text-wrap: wrap; }
.bubble pre { margin: 0; padding: 0.625rem 0.75rem; max-height: 24rem; overflow: auto; background: var(--sheet); border: 1px solid var(--line); border-radius: 0.5rem; font-size: 0.8125rem; line-height: 1.5; white-space: pre-wrap; overflow-wrap: anywhere; }
.folded summary { min-height: 1.5rem; padding: 0; font-size: 0.875rem; font-weight: 500; }
.folded[open] summary { margin-bottom: 0.375rem; }
.file { display: inline-flex; align-items: center; gap: 0.75rem; align-self: flex-start; max-width: 100%; padding: 0.5rem 0.875rem; background: var(--sheet); border: 1px solid var(--line); border-radius: 0.5rem; color: inherit; text-decoration: none; }
.file:hover { border-color: var(--edge); }
.file:hover b { text-decoration: underline; text-underline-offset: 0.2em; }
.file svg { width: 1.375rem; height: 1.375rem; flex: none; color: var(--accent); }
.picture { display: block; align-self: flex-start; width: auto; height: auto; max-width: min(100%, 28rem); max-height: 24rem; border-radius: 0.5rem; }
.happening { color: var(--soft); padding-inline-start: 2.75rem; }
.happening + .happening { margin-top: -0.5rem; }
.happening .by { position: relative; }
.happening .by::before { content: ""; position: absolute; inset-inline-start: -2rem; top: 0.4rem; width: 0.5rem; height: 0.5rem; border-radius: 50%; background: var(--line); box-shadow: 0 0 0 3px var(--sheet), 0 0 0 4px var(--line); }
.happening .bubble { color: var(--ink); }
.happening b { color: var(--ink); font-weight: 500; }
@keyframes arrive { from { opacity: 0; transform: translateY(0.375rem); } }
@media (prefers-reduced-motion: no-preference) { .fresh { animation: arrive 200ms ease-out; } }

#end { height: 0; margin-top: -1.25rem; }
.live-bar { display: flex; flex-wrap: wrap; align-items: center; justify-content: center; gap: 0.5rem; padding-block: 0.5rem; pointer-events: none; }
.live-bar:has(.jump:not([hidden]), [data-state="signed-out"], [data-state="gone"]) { position: sticky; bottom: 0; }
.jump { pointer-events: auto; min-height: 2.25rem; padding: 0.25rem 1rem; border-radius: 1.25rem; box-shadow: var(--shadow); font-size: 0.875rem; }
.jump[hidden], .jump:not([hidden]) + [data-state="on"], .jump:not([hidden]) + [data-state="slow"] { display: none; }
.live { pointer-events: auto; display: inline-flex; align-items: center; gap: 0.5rem; max-width: 100%; padding: 0.25rem 0.875rem; background: var(--sheet); border: 1px solid var(--line); border-radius: 1rem; box-shadow: var(--shadow); font-size: 0.8125rem; font-weight: 500; }
.live { min-height: 2rem; }
.live span { display: none; }
.live:not([data-state]) .still, .live[data-state="on"] .on, .live[data-state="off"] .off, .live[data-state="slow"] .slow,
.live[data-state="signed-out"] .signed-out, .live[data-state="gone"] .gone { display: inline; }
.live[data-state]::before { content: ""; flex: none; width: 0.5rem; height: 0.5rem; border-radius: 50%; background: var(--edge); }
.live[data-state="on"]::before, .live[data-state="slow"]::before { background: var(--accent); }
.live[data-state="signed-out"]::before, .live[data-state="gone"]::before { background: var(--bad); }

@media (max-width: 46rem) {
  .said .saying { max-width: 100%; flex: 1; }
  .log { padding: 0.875rem; }
}
@media (max-width: 30rem) {
  .entry { gap: 0.5rem; }
  .happening { padding-inline-start: 2.5rem; }
}
`;
