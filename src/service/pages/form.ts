import { type Html, html } from './html.js';

/** What is wrong with one field, in words for the person who filled it in. */
export interface Mistake {
  /** The `id` of the field; undefined: of the form as a whole. */
  readonly field?: string;
  readonly message: string;
}

export interface Field {
  readonly id: string;
  readonly name: string;
  readonly label: string;
  readonly kind?: 'text' | 'password';
  readonly value?: string;
  readonly hint?: Html | string;
  readonly autocomplete: string;
  readonly maxLength: number;
  readonly minLength?: number;
  /** Shown before what is typed, as a part of it. */
  readonly prefix?: string;
  /** A name of letters, digits, `_` and `-`: no correction, no capitals. */
  readonly isIdentifier?: boolean;
  readonly isRequired?: boolean;
}

/** A labelled field with its hint and its mistake tied to it. */
export function renderField(field: Field, mistakes: readonly Mistake[]): Html {
  const mistake = mistakes.find((candidate) => candidate.field === field.id);
  const { id, prefix, isIdentifier = false, isRequired = true } = field;
  const described = [field.hint !== undefined && `${id}-hint`, mistake !== undefined && `${id}-mistake`].filter(
    (part) => part !== false,
  );
  const isFirstMistake = mistake !== undefined && mistakes[0] === mistake;
  const input = html`<input type="${field.kind ?? 'text'}" id="${id}" name="${field.name}" value="${field.value ?? ''}"
    autocomplete="${field.autocomplete}" maxlength="${field.maxLength}"${field.minLength !== undefined && html` minlength="${field.minLength}"`}
    ${isIdentifier && html` autocapitalize="none" autocorrect="off" spellcheck="false"`}${isRequired && html` required`}
    ${described.length > 0 && html` aria-describedby="${described.join(' ')}"`}${mistake !== undefined && html` aria-invalid="true"`}${isFirstMistake && html` autofocus`}>`;
  return html`<div class="field">
<label for="${id}">${field.label}</label>
${field.hint !== undefined && html`<span class="hint" id="${id}-hint">${field.hint}</span>`}
${mistake !== undefined && html`<span class="mistake" id="${id}-mistake">${mistake.message}</span>`}
${prefix === undefined ? input : html`<div class="joined"><span aria-hidden="true">${prefix}</span>${input}</div>`}
</div>`;
}

/** What went wrong, each with a link to its field. */
export function renderProblem(title: string, mistakes: readonly Mistake[]): Html | undefined {
  if (mistakes.length === 0) return undefined;
  return html`<section class="problem" role="alert" aria-labelledby="problem-title">
<h2 id="problem-title">${title}</h2>
<ul>${mistakes.map(({ field, message }) => html`<li>${field === undefined ? message : html`<a href="#${field}">${message}</a>`}</li>`)}</ul>
</section>`;
}

/** Fields that a person does not see. */
export function hidden(values: Readonly<Record<string, string | undefined>>): Html {
  const given = Object.entries(values).filter(([, value]) => value !== undefined);
  return html`${given.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)}`;
}
