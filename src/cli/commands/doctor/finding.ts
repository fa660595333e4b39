/** What one check found. `fix`: a command that helps, word by word. */
export interface Finding {
  readonly check: string;
  readonly state: 'ok' | 'warning' | 'problem' | 'fixed';
  readonly says: string;
  readonly fix?: readonly string[] | undefined;
}

export const ok = (check: string, says: string): Finding => ({ check, state: 'ok', says });
export const warning = (check: string, says: string, fix?: readonly string[]): Finding => ({
  check,
  state: 'warning',
  says,
  fix,
});
export const problem = (check: string, says: string, fix?: readonly string[]): Finding => ({
  check,
  state: 'problem',
  says,
  fix,
});

/** An error's own words. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
