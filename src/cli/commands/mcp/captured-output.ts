import type { Output } from '../../terminal/output.js';
import { loadStyle } from '../../terminal/style.js';

/** An output that keeps what a command would have printed with `--json`. */
export interface CapturedOutput extends Output {
  readonly captured: () => object | undefined;
}

/** Remarks that no document tells still go where `notes` puts them. */
export function captureOutput(notes: Output): CapturedOutput {
  let value: object | undefined;
  const style = () => loadStyle(false);
  const ignore = async (): Promise<void> => {};
  return {
    format: 'json',
    captured: () => value,
    async document(given) {
      value = given;
    },
    async list(page) {
      value = page;
    },
    async record(given) {
      value = given;
    },
    text: ignore,
    verbatim: ignore,
    bytes: ignore,
    note: (text) => notes.detail(text),
    detail: (text) => notes.detail(text),
    trace: (entry) => notes.trace(entry),
    style,
    errorStyle: style,
  };
}
