import type { ServiceContext } from '../core/context.js';
import type { Query } from '../core/database.js';

/** An answer that is sent while it is made: the text of a `Reply`. */
export interface StreamedAnswer<Reply> {
  readonly texts: AsyncIterable<string>;
  /** Only the type is used: it has to be that of the endpoint. */
  readonly reply?: Reply;
}

/** A part of a list, and the name after which the next part begins; undefined: it was the last. */
interface ListPart<Item> {
  readonly items: readonly Item[];
  readonly next: string | undefined;
}

const ROWS_PER_READ = 500;

/**
 * `{"name": […]}` with all rows, read in parts while it is sent: it may be larger than memory, and a long read would
 * keep every other request waiting.
 */
export async function streamList<Name extends string, Item>(
  { database }: Pick<ServiceContext, 'database'>,
  name: Name,
  read: (query: Query, after: string, limit: number) => Promise<ListPart<Item>>,
): Promise<StreamedAnswer<{ [List in Name]: Item[] }>> {
  const readAfter = (after: string): Promise<ListPart<Item>> =>
    database.read((query) => read(query, after, ROWS_PER_READ));
  // If this fails, the answer is an error. Later, only a cut connection can say so.
  let part = await readAfter('');
  async function* write(): AsyncGenerator<string> {
    yield `{"${name}":[`;
    let comma = '';
    while (true) {
      const texts = part.items.map((item) => JSON.stringify(item));
      if (texts.length > 0) {
        yield comma + texts.join();
        comma = ',';
      }
      if (part.next === undefined) break;
      part = await readAfter(part.next);
    }
    yield ']}';
  }
  return { texts: write() };
}

/** Where a list by name continues after these rows. */
export function nameAfter<Row>(rows: readonly Row[], nameOf: (row: Row) => string): string | undefined {
  const last = rows.at(-1);
  return last === undefined || rows.length < ROWS_PER_READ ? undefined : nameOf(last);
}
