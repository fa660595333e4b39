/** The doorbell: says that something may have changed. The log is the truth; a lost ring costs latency, never data. */
export interface Bus {
  ring(signal: Signal): void;
  /** Calls `listener` for every ring from now on; the answer stops it. */
  listen(listener: (signal: Signal) => void): () => void;
  close(): Promise<void>;
}

export type Signal =
  /** New events that these agents may see. */
  | { readonly kind: 'events'; readonly agentIds: readonly string[] }
  /** Sockets that were opened with this grant (a refresh-token family or a confidential client) were told to close. */
  | { readonly kind: 'revoked'; readonly grantId: string };
