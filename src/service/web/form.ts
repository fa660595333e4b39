import { formatQuantity } from '../../kit/format.js';
import { type Html, html } from './html.js';

/** A mistake in one field, worded for the person who filled it in. */
export interface Mistake {
  /** The `id` of the field; undefined: the form as a whole. */
  readonly field?: string;
  readonly message: string;
}

export interface Field {
  readonly id: string;
  readonly name: string;
  readonly label: Html | string;
  readonly kind?: 'text' | 'password' | 'date' | 'url';
  readonly value?: string;
  readonly hint?: Html | string;
  readonly autocomplete: string;
  /** Undefined: a browser must not cut what someone pastes. */
  readonly maxLength?: number;
  readonly minLength?: number;
  /** Shown before the input, as a part of it. */
  readonly prefix?: string;
  /** A name of letters, digits, `_` and `-`: no autocorrection, no capitals. */
  readonly isIdentifier?: boolean;
  readonly isRequired?: boolean;
  /** It has the focus when the page opens, unless there is a mistake. */
  readonly hasFocus?: boolean;
  /** Suggestions; other values can be typed too. */
  readonly suggestions?: readonly string[];
}

/**
 * The texts of a control and the attributes that tie them to it. The first mistake in a form has the focus; if it is
 * the only one, it is not in a list above the form as well. Firefox tells screen readers that an empty field is invalid
 * before anyone could fill it in, unless the field says that it is not, and the same of its form unless that has a name.
 */
export function tie(
  { id, hint }: { readonly id: string; readonly hint?: Html | string },
  mistakes: readonly Mistake[],
): { readonly notes: Html; readonly attributes: Html } {
  const mistake = mistakes.find((candidate) => candidate.field === id);
  // The mistake is read first: it is why the page came back.
  const described = [mistake !== undefined && `${id}-mistake`, hint !== undefined && `${id}-hint`].filter(
    (part) => part !== false,
  );
  return {
    notes: html`${hint !== undefined && html`<span class="hint" id="${id}-hint">${hint}</span>`}
${mistake !== undefined && html`<span class="mistake" id="${id}-mistake"${mistakes.length === 1 && html` role="alert"`}>${mistake.message}</span>`}`,
    attributes: html`${described.length > 0 && html` aria-describedby="${described.join(' ')}"`} aria-invalid="${mistake === undefined ? 'false' : 'true'}"${mistake !== undefined && mistake === mistakes[0] && html` autofocus`}`,
  };
}

/** A labeled field, tied to its hint and its mistake. */
export function renderField(field: Field, mistakes: readonly Mistake[]): Html {
  const { id, prefix, isIdentifier = false, isRequired = true, suggestions } = field;
  const { notes, attributes } = tie(field, mistakes);
  const input = html`<input type="${field.kind ?? 'text'}" id="${id}" name="${field.name}" value="${field.value ?? ''}"
    autocomplete="${field.autocomplete}"${field.maxLength !== undefined && html` maxlength="${field.maxLength}"`}${field.minLength !== undefined && html` minlength="${field.minLength}"`}
    ${isIdentifier && html` autocapitalize="none" autocorrect="off" spellcheck="false"`}${isRequired && html` required`}${field.hasFocus === true && html` autofocus`}${suggestions !== undefined && html` list="${id}-suggestions"`}${attributes}>`;
  return html`<div class="field">
<label for="${id}">${field.label}</label>
${notes}
${prefix === undefined ? input : html`<div class="joined"><span aria-hidden="true">${prefix}</span>${input}</div>`}
${suggestions !== undefined && html`<datalist id="${id}-suggestions">${suggestions.map((one) => html`<option value="${one}"></option>`)}</datalist>`}
</div>`;
}

/** A labeled choice among a few options, none of which is selected by default. */
export interface Selection {
  readonly id: string;
  readonly name: string;
  readonly label: string;
  readonly hint?: Html | string;
  /** Shown while nothing is selected. */
  readonly nothing: string;
  readonly isRequired?: boolean;
  readonly options: readonly { readonly value: string; readonly label: string }[];
}

export function renderSelection(selection: Selection, chosen: string | undefined, mistakes: readonly Mistake[]): Html {
  const { id, name, label, nothing, isRequired = true, options } = selection;
  const { notes, attributes } = tie(selection, mistakes);
  return html`<div class="field"><label for="${id}">${label}</label>
${notes}
<select id="${id}" name="${name}"${isRequired && html` required`}${attributes}><option value="">${nothing}</option>${options.map((option) => html`<option value="${option.value}"${option.value === chosen && html` selected`}>${option.label}</option>`)}</select></div>`;
}

export interface Area {
  readonly id: string;
  readonly name: string;
  readonly label: string;
  readonly value: string;
  /** Undefined: a browser must not cut what someone pastes. */
  readonly maxLength?: number;
  readonly rows: number;
  readonly hint?: Html | string;
  readonly isCode?: boolean;
}

/** A labeled field with several lines. A browser drops one line end after the tag, so one is added. */
export function renderArea(area: Area, mistakes: readonly Mistake[]): Html {
  const { id, name, label, value, maxLength, rows, isCode = false } = area;
  const { notes, attributes } = tie(area, mistakes);
  return html`<div class="field"><label for="${id}">${label}</label>
${notes}
<textarea id="${id}" name="${name}" rows="${rows}"${maxLength !== undefined && html` maxlength="${maxLength}"`} autocomplete="off"${isCode && html` class="mono" spellcheck="false"`}${attributes}>
${value}</textarea></div>`;
}

/** One of the answers to a question. */
interface Choice {
  readonly value: string;
  readonly label: string;
  readonly about?: Html | string;
  readonly isDisabled?: boolean;
}

/** The answers to one question; a mistake in one of them is shown above all. */
export interface Choices {
  readonly name: string;
  readonly legend: string;
  readonly choices: readonly Choice[];
}

/** Exactly one applies; each has its name and its value as an id. */
export function renderChoices({ name, legend, choices }: Choices, chosen: string, mistakes: readonly Mistake[]): Html {
  const tied = choices.map((choice) => ({ ...choice, ...tie({ id: `${name}-${choice.value}` }, mistakes) }));
  return html`<fieldset><legend>${legend}</legend>${tied.map(({ notes }) => notes)}<div class="choices">${tied.map(
    ({ value, label, about, isDisabled = false, attributes }) =>
      html`<div class="choice"><label for="${name}-${value}"><input type="radio" id="${name}-${value}" name="${name}" value="${value}"${value === chosen && html` checked`}${isDisabled && html` disabled`}${attributes}><span class="who"><b>${label}</b><span class="soft small">${about}</span></span></label></div>`,
  )}</div></fieldset>`;
}

/** Any number of them applies; each has its name and its number as an id. */
export function renderTicks(
  { name, legend, choices }: Choices,
  ticked: readonly string[],
  mistakes: readonly Mistake[],
): Html {
  const tied = choices.map((choice, index) => {
    const id = `${name}-${index}`;
    return { ...choice, id, ...tie({ id }, mistakes) };
  });
  return html`<fieldset><legend>${legend}</legend>${tied.map(({ notes }) => notes)}<div class="ticks-in">${tied.map(
    ({ id, value, label, attributes }) =>
      renderTick({ id, name, value, label, isTicked: ticked.includes(value) }, attributes),
  )}</div></fieldset>`;
}

export interface Tick {
  readonly id: string;
  readonly name: string;
  readonly value: string;
  readonly label: string;
  readonly isTicked: boolean;
}

export function renderTick({ id, name, value, label, isTicked }: Tick, attributes?: Html): Html {
  return html`<div class="tick"><label for="${id}"><input type="checkbox" id="${id}" name="${name}" value="${value}"${isTicked && html` checked`}${attributes}><span>${label}</span></label></div>`;
}

/** The mistakes, each with a link to its field; a mistake without a field has the focus here. */
export function renderProblem(title: string, mistakes: readonly Mistake[]): Html | undefined {
  if (mistakes.length === 0) return undefined;
  const isOfNoField = mistakes[0]?.field === undefined;
  return html`<section class="problem" role="alert" aria-labelledby="problem-title"${isOfNoField && html` tabindex="-1" autofocus`}>
<h2 id="problem-title">${title}</h2>
<ul>${mistakes.map(({ field, message }) => html`<li>${field === undefined ? message : html`<a href="#${field}">${message}</a>`}</li>`)}</ul>
</section>`;
}

/** The mistakes of a form whose fields show their own: a list, unless the only one is shown at its field. */
export function renderMistakes(mistakes: readonly Mistake[]): Html | undefined {
  const isShownThere = mistakes.length === 1 && mistakes[0]?.field !== undefined;
  const isInFields = mistakes.every(({ field }) => field !== undefined);
  return isShownThere
    ? undefined
    : renderProblem(isInFields ? 'Please fix the following' : 'There is a problem', mistakes);
}

/** The title of a page with a form: a problem comes first, so that screen readers announce it first. */
export function toTitle(title: string, mistakes: readonly Mistake[]): string {
  return mistakes.length > 0 ? `Problem: ${title}` : title;
}

/** Hidden fields. */
export function hidden(values: Readonly<Record<string, string | undefined>>): Html {
  const given = Object.entries(values).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value] as const],
  );
  return hiddenEntries(given);
}

export function hiddenEntries(entries: readonly (readonly [name: string, value: string])[]): Html {
  return html`${entries.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)}`;
}

/** How long someone must wait, for people: in seconds, minutes or hours. */
export function describeDuration(seconds: number): string {
  if (seconds <= 90) return formatQuantity(seconds, 'second');
  const minutes = Math.ceil(seconds / 60);
  return minutes <= 90 ? formatQuantity(minutes, 'minute') : formatQuantity(Math.ceil(minutes / 60), 'hour');
}
