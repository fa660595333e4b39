/** What an exit code tells. */
export interface ExitCodeRow {
  readonly code: number;
  readonly means: string;
}

/** Every way in which the program ends. */
export const EXIT_CODES: readonly ExitCodeRow[] = [
  { code: 0, means: 'done; the reader closed the pipe; an empty list' },
  {
    code: 1,
    means: 'a bug in asp; doctor found a problem; a question was answered with no; the output could not be written',
  },
  { code: 2, means: 'wrong usage, or the service found the request invalid' },
  { code: 3, means: 'not found or not reachable (the service does not say which)' },
  { code: 4, means: 'signing in is needed' },
  { code: 5, means: 'not permitted' },
  { code: 6, means: 'a conflict: a handle is taken, a key was used for something else, a port is in use' },
  { code: 7, means: 'too many requests, also after the tries' },
  { code: 8, means: 'not in time' },
  { code: 9, means: 'the service could not be reached or failed, also after the tries; a write may have been done' },
  { code: 10, means: 'partly done' },
  { code: 130, means: 'interrupted (SIGINT)' },
  { code: 143, means: 'told to stop (SIGTERM)' },
];
