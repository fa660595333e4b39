/** Returns the values of the names that stand for embedded files in the sources, for a bundler's `define`. */
export function embeddedFiles(): Record<string, string>;
