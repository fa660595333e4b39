import type { Mistake } from '../form.js';
import { type Html, html } from '../html.js';

export interface Area {
  readonly id: string;
  readonly name: string;
  readonly label: string;
  readonly value: string;
  readonly maxLength: number;
  readonly rows: number;
  readonly hint?: Html | string;
  readonly isCode?: boolean;
}

/** A labelled field of several lines. A browser drops one line end after the tag, so one is put there. */
export function renderArea(area: Area, mistakes: readonly Mistake[]): Html {
  const { id, name, label, value, maxLength, rows, hint, isCode = false } = area;
  const mistake = mistakes.find((candidate) => candidate.field === id);
  const described = [hint !== undefined && `${id}-hint`, mistake !== undefined && `${id}-mistake`].filter(
    (part) => part !== false,
  );
  return html`<div class="field"><label for="${id}">${label}</label>
${hint !== undefined && html`<span class="hint" id="${id}-hint">${hint}</span>`}
${mistake !== undefined && html`<span class="mistake" id="${id}-mistake">${mistake.message}</span>`}
<textarea id="${id}" name="${name}" rows="${rows}" maxlength="${maxLength}" autocomplete="off"${isCode && html` class="mono" spellcheck="false"`}${described.length > 0 && html` aria-describedby="${described.join(' ')}"`}${mistake !== undefined && html` aria-invalid="true"`}>
${value}</textarea></div>`;
}

export interface Choice {
  readonly value: string;
  readonly label: string;
  readonly about: Html | string;
}

/** A few ways of which one holds. */
export function renderChoices(
  { name, legend, choices }: { readonly name: string; readonly legend: string; readonly choices: readonly Choice[] },
  chosen: string,
): Html {
  return html`<fieldset><legend>${legend}</legend><div class="choices">${choices.map(
    ({ value, label, about }) =>
      html`<div class="choice"><label for="${name}-${value}"><input type="radio" id="${name}-${value}" name="${name}" value="${value}"${value === chosen && html` checked`}><span class="who"><b>${label}</b><span class="soft small">${about}</span></span></label></div>`,
  )}</div></fieldset>`;
}

export interface Tick {
  readonly id: string;
  readonly name: string;
  readonly value: string;
  readonly label: string;
  readonly isTicked: boolean;
}

export function renderTick({ id, name, value, label, isTicked }: Tick): Html {
  return html`<div class="tick"><label for="${id}"><input type="checkbox" id="${id}" name="${name}" value="${value}"${isTicked && html` checked`}><span>${label}</span></label></div>`;
}
