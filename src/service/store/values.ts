import type { Dialect } from './database.js';

/** The values of a list in JSON, each as `value`, by the name that each database has for it. */
export function valuesOf(dialect: Dialect, list: string): string {
  return dialect === 'sqlite' ? `json_each(${list})` : `json_array_elements_text(${list}::json)`;
}
