/** `1.2.3`, `1.2.3-beta.1`, either with `+build` (Semantic Versioning 2.0.0 §2, §9, §10). */
const VERSION = /^(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$/;

export function isVersion(text: string): boolean {
  return text.length <= 64 && VERSION.test(text);
}

/** Whether `one` has precedence over `other`; what is no version has none (Semantic Versioning 2.0.0 §11). */
export function isNewerVersion(one: string, other: string): boolean {
  const [left, right] = [VERSION.exec(one), VERSION.exec(other)];
  if (left === null || right === null) return false;
  for (const part of [1, 2, 3]) {
    const difference = Number(left[part]) - Number(right[part]);
    if (difference !== 0) return difference > 0;
  }
  return comparePreRelease(left[4], right[4]) > 0;
}

/** A release is after its pre-releases. */
function comparePreRelease(one: string | undefined, other: string | undefined): number {
  if (one === undefined || other === undefined) return Number(one === undefined) - Number(other === undefined);
  const [left, right] = [one.split('.'), other.split('.')];
  for (let at = 0; at < Math.min(left.length, right.length); at += 1) {
    const difference = compareIdentifier(left[at] ?? '', right[at] ?? '');
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

/** Numbers are before words. */
function compareIdentifier(one: string, other: string): number {
  const areNumbers = [one, other].map((text) => /^\d+$/.test(text));
  if (areNumbers[0] === true && areNumbers[1] === true) return Number(one) - Number(other);
  if (areNumbers[0] !== areNumbers[1]) return areNumbers[0] === true ? -1 : 1;
  return one === other ? 0 : one < other ? -1 : 1;
}
