/** One statement for both databases, or one for each; undefined where one of them needs none. */
export type Statement = string | { readonly sqlite: string | undefined; readonly postgres: string | undefined };

/** One step of the schema. Steps are applied in order, each in a transaction, and never changed once released. */
export interface Migration {
  readonly version: number;
  readonly statements: readonly Statement[];
}
