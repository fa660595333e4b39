/** A link, or a button that sends a form. */
interface Button {
  readonly name: string | undefined;
  readonly value: string;
  readonly label: string;
}

/** A form as a browser sees it. */
export interface HtmlForm {
  readonly action: string;
  readonly method: string;
  /** Whether the form is sent as multipart, as a form with files is. */
  readonly isInParts: boolean;
  /** The values that an unchanged form sends. */
  readonly values: Readonly<Record<string, string>>;
  /** The ticked checkboxes by name. */
  readonly ticked: Readonly<Record<string, readonly string[]>>;
  /** The type of each field: text, password, hidden, radio, checkbox, select… */
  readonly types: Readonly<Record<string, string>>;
  /** The values that a radio group or a select offers, with their labels. */
  readonly choices: Readonly<Record<string, readonly { readonly value: string; readonly label: string }[]>>;
  readonly buttons: readonly Button[];
}

const ENTITY: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: ' ' };

/** Resolves character references. */
function decodeHtml(text: string): string {
  return text.replace(/&(#x[0-9a-f]+|#\d+|\w+);/gi, (whole, name: string) => {
    if (name.startsWith('#x') || name.startsWith('#X')) return String.fromCodePoint(Number.parseInt(name.slice(2), 16));
    if (name.startsWith('#')) return String.fromCodePoint(Number(name.slice(1)));
    return ENTITY[name.toLowerCase()] ?? whole;
  });
}

/** Returns the text that a reader sees: no tags, single spaces. */
export function visibleText(html: string): string {
  const body = html.replace(/<(script|style|head|dialog)\b[\s\S]*?<\/\1>/gi, ' ');
  return decodeHtml(body.replace(/<[^>]*>/g, ' '))
    .replace(/\s+/g, ' ')
    .trim();
}

function attributesOf(tag: string): Readonly<Record<string, string>> {
  const pairs = [...tag.matchAll(/([\w-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+)))?/g)].slice(1);
  return Object.fromEntries(
    pairs.map(([, name = '', quoted, single, bare]) => [
      name.toLowerCase(),
      decodeHtml(quoted ?? single ?? bare ?? ''),
    ]),
  );
}

export function linksOf(html: string): readonly { readonly href: string; readonly label: string }[] {
  return [...html.matchAll(/<a\b[^>]*>([\s\S]*?)<\/a>/gi)].map(([link = '', inner = '']) => ({
    href: attributesOf(link.slice(0, link.indexOf('>')))['href'] ?? '',
    label: visibleText(inner),
  }));
}

/** Returns a page's forms, with the buttons elsewhere on the page that name them. */
export function formsOf(html: string): readonly HtmlForm[] {
  return [...html.matchAll(/<form\b([^>]*)>([\s\S]*?)<\/form>/gi)].map(([, head = '', inner = '']) => {
    const attributes = attributesOf(`<form ${head}`);
    const form = readForm(attributes, inner);
    const { id } = attributes;
    return id === undefined ? form : { ...form, buttons: [...form.buttons, ...buttonsOf(html, id)] };
  });
}

function readForm(head: Readonly<Record<string, string>>, inner: string): HtmlForm {
  const values: Record<string, string> = {};
  const types: Record<string, string> = {};
  const choices: Record<string, { value: string; label: string }[]> = {};
  const ticked: Record<string, string[]> = {};
  for (const match of inner.matchAll(/<(input|textarea)\b[^>]*>/gi)) {
    const tag = attributesOf(match[0]);
    const { name, type = 'text', value = '' } = tag;
    if (name === undefined || type === 'submit') continue;
    types[name] = type;
    if (type === 'radio') {
      choices[name] = [...(choices[name] ?? []), { value, label: labelAfter(inner, match.index) }];
      if ('checked' in tag) values[name] = value;
    } else if (match[1] === 'textarea') values[name] = textAfter(inner, match.index);
    else if (type !== 'checkbox') values[name] = value;
    else if ('checked' in tag) ticked[name] = [...(ticked[name] ?? []), value === '' ? 'on' : value];
  }
  for (const [, select = '', options = ''] of inner.matchAll(/<select\b([^>]*)>([\s\S]*?)<\/select>/gi)) {
    const { name } = attributesOf(`<select ${select}`);
    if (name === undefined) continue;
    types[name] = 'select';
    choices[name] = optionsOf(options);
    values[name] = selectedOf(options) ?? choices[name][0]?.value ?? '';
  }
  const { action = '', method = 'get', enctype } = head;
  const isInParts = enctype === 'multipart/form-data';
  return { action, method: method.toUpperCase(), isInParts, values, ticked, types, choices, buttons: buttonsOf(inner) };
}

function labelAfter(html: string, index: number): string {
  const end = html.indexOf('</label>', index);
  return visibleText(html.slice(index, end === -1 ? index + 200 : end));
}

/** Returns the content of a text area, without the line end that directly follows its tag. */
function textAfter(html: string, index: number): string {
  const begin = html.indexOf('>', index) + 1;
  return decodeHtml(html.slice(begin, html.indexOf('</textarea', begin))).replace(/^\n/, '');
}

function selectedOf(html: string): string | undefined {
  const [tag] = /<option\b[^>]*\sselected[^>]*>/i.exec(html) ?? [];
  return tag === undefined ? undefined : attributesOf(tag)['value'];
}

function optionsOf(html: string): { value: string; label: string }[] {
  return [...html.matchAll(/<option\b([^>]*)>([^<]*)/gi)].map(([, head = '', label = '']) => ({
    value: attributesOf(`<option ${head}`)['value'] ?? label,
    label: visibleText(label),
  }));
}

/** Returns the buttons that name no form, or those that name this one. */
function buttonsOf(html: string, id?: string): Button[] {
  const written = [...html.matchAll(/<button\b([^>]*)>([\s\S]*?)<\/button>/gi)].flatMap(([, head = '', label = '']) => {
    const { name, value = '', form } = attributesOf(`<button ${head}`);
    return form === id ? [{ name, value, label: visibleText(label) }] : [];
  });
  if (id !== undefined) return written;
  const inputs = [...html.matchAll(/<input\b[^>]*type="?submit[^>]*>/gi)].map(([tag]) => {
    const { name, value = '' } = attributesOf(tag);
    return { name, value, label: value };
  });
  return [...written, ...inputs];
}
