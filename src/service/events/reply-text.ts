/** A reply whose JSON is there already: what was stored as it is sent is not read and written anew. */
export class ReplyText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}
