import type { Emitter } from 'highlight.js';
import highlighter from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import diff from 'highlight.js/lib/languages/diff';
import go from 'highlight.js/lib/languages/go';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import python from 'highlight.js/lib/languages/python';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';
import { type Html, html } from '../html.js';
import type { CodeLanguage } from './markdown.js';

/**
 * The library knows some of these by other names. Under those it would read each language inside another, and templates in
 * scripts in templates take twice as long at each step.
 */
const LANGUAGES = { bash, diff, go, html: xml, js: javascript, json, python, rust, sql, ts: typescript, yaml };
for (const [name, language] of Object.entries(LANGUAGES)) highlighter.registerLanguage(name, language);

/** What parts of a program look like, by the library's names for them. All others are plain. */
const LOOK: Readonly<Record<string, string>> = {
  ...{ comment: 'comment', quote: 'comment', doctag: 'comment', meta: 'comment' },
  ...{ keyword: 'keyword', literal: 'keyword', built_in: 'keyword', type: 'keyword', 'selector-tag': 'keyword' },
  ...{ string: 'string', regexp: 'string', char: 'string', symbol: 'string', link: 'string' },
  ...{ title: 'name', name: 'name', section: 'name', attr: 'name', attribute: 'name' },
  ...{ number: 'number', addition: 'added', deletion: 'removed' },
};

/** Collects the parts in place of the library's own markup. */
class Parts implements Emitter {
  readonly list: { readonly look: string | undefined; text: string }[] = [];
  readonly #looks: (string | undefined)[] = [];

  startScope(scope: string): void {
    const [kind = ''] = scope.split('.');
    this.#looks.push(LOOK[kind] ?? this.#looks.at(-1));
  }

  endScope(): void {
    this.#looks.pop();
  }

  /** The library calls both of these names. */
  readonly openNode = this.startScope;
  readonly closeNode = this.endScope;

  addText(text: string): void {
    const look = this.#looks.at(-1);
    const last = this.list.at(-1);
    if (last !== undefined && last.look === look) last.text += text;
    else this.list.push({ look, text });
  }

  finalize(): void {}

  __addSublanguage(): void {}

  toHTML(): string {
    return '';
  }
}
highlighter.configure({ __emitter: Parts });

/** The code with its parts marked; undefined: the library could not read it. */
export function highlight(code: string, language: CodeLanguage): Html | undefined {
  const { _emitter: parts } = highlighter.highlight(code, { language, ignoreIllegals: true });
  // If the library itself fails, it stops in the middle.
  if (!(parts instanceof Parts) || parts.list.map(({ text }) => text).join('') !== code) return undefined;
  return html`${parts.list.map(({ look, text }) => (look === undefined ? text : html`<span class="code-${look}">${text}</span>`))}`;
}
