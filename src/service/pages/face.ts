import { type Html, html } from './html.js';

/** A round sign for whoever has no picture: the first character of a name that can be seen. */
export function renderFace(name: string, size: 'small' | 'usual' | 'large' = 'usual'): Html {
  const [initial = '?'] = /[\p{L}\p{N}]/u.exec(name) ?? [];
  return html`<span class="face${size !== 'usual' && ` ${size}-face`}" aria-hidden="true">${initial.toUpperCase()}</span>`;
}
