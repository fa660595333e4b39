/**
 * `Headers` and `Response` as far as openid-client uses them for a token request. The build puts them in place of the
 * global ones, which load all of Node's own HTTP client: half the time of a login (docs/decisions/client.md).
 */
class TokenHeaders {
  readonly #values = new Map<string, string>();

  constructor(init: Iterable<readonly [string, string]> | Readonly<Record<string, string>> = {}) {
    const entries = Symbol.iterator in init ? init : Object.entries(init);
    for (const [name, value] of entries) this.append(name, value);
  }

  get [Symbol.toStringTag](): string {
    return 'Headers';
  }

  get(name: string): string | null {
    return this.#values.get(name.toLowerCase()) ?? null;
  }

  has(name: string): boolean {
    return this.#values.has(name.toLowerCase());
  }

  set(name: string, value: string): void {
    this.#values.set(name.toLowerCase(), value);
  }

  append(name: string, value: string): void {
    const before = this.get(name);
    this.set(name, before === null ? value : `${before}, ${value}`);
  }

  delete(name: string): void {
    this.#values.delete(name.toLowerCase());
  }

  entries(): IterableIterator<[string, string]> {
    return this.#values.entries();
  }

  [Symbol.iterator](): IterableIterator<[string, string]> {
    return this.entries();
  }
}

class TokenResponse {
  readonly status: number;
  readonly headers: TokenHeaders;
  readonly #body: Uint8Array;
  #isUsed = false;

  constructor(body: Uint8Array, init: { readonly status: number; readonly headers: Record<string, string> }) {
    this.status = init.status;
    this.headers = new TokenHeaders(init.headers);
    this.#body = body;
  }

  get [Symbol.toStringTag](): string {
    return 'Response';
  }

  get bodyUsed(): boolean {
    return this.#isUsed;
  }

  async text(): Promise<string> {
    if (this.#isUsed) throw new TypeError('The body was already read.');
    this.#isUsed = true;
    return new TextDecoder().decode(this.#body);
  }

  async json(): Promise<unknown> {
    return JSON.parse(await this.text());
  }
}

export { TokenHeaders as Headers, TokenResponse as Response };
