/** Markup that is safe to send: whatever came into it from outside was escaped. */
export interface Html {
  readonly markup: string;
}

export type HtmlValue = Html | string | number | undefined | false | readonly HtmlValue[];

const ENTITY: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

/** A template whose values are escaped, unless they are markup themselves; `undefined` and `false` leave nothing. */
export function html(parts: TemplateStringsArray, ...values: HtmlValue[]): Html {
  return { markup: parts.reduce((text, part, index) => text + render(values[index - 1]) + part) };
}

function render(value: HtmlValue): string {
  if (value === undefined || value === false) return '';
  if (typeof value === 'string') return value.replace(/[&<>"']/g, (character) => ENTITY[character] ?? '');
  if (typeof value === 'number') return String(value);
  if ('markup' in value) return value.markup;
  return value.map(render).join('');
}

const INVISIBLE = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\u2028\u2029]/gu;
const SHOWN_LENGTH_MAX = 80;

/** A name that a stranger chose: nothing in it can reorder, hide or crowd out what stands around it. */
export function strangersText(text: string): Html {
  return html`<bdi>${strangersWords(text)}</bdi>`;
}

/** The same where no markup can be: in the title of a tab. */
export function strangersWords(text: string): string {
  const visible = [...text.replace(INVISIBLE, '').replace(/\s+/g, ' ').trim()];
  return visible.length > SHOWN_LENGTH_MAX ? `${visible.slice(0, SHOWN_LENGTH_MAX).join('')}…` : visible.join('');
}
