/** A reply whose JSON is there already: what was stored as it is sent is not read and written anew. */
export class ReplyText {
  readonly text: string;
  /** What follows it, read as the answer goes out. */
  readonly more: AsyncIterable<string> | undefined;

  constructor(text: string, more?: AsyncIterable<string>) {
    this.text = text;
    this.more = more;
  }
}
