/** The value of a JSON text; undefined, which no JSON text means, if it is not one or there is none. */
export function parseIfJson(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? '');
  } catch {
    return undefined;
  }
}
