import type * as z from 'zod/mini';

/** Why a value does not fit its schema. */
type Issue = z.core.$ZodIssue;

/** Of the forms that a value may have, the one that the caller probably meant: the issue deepest in the value. */
function findCause(issue: Issue): Issue {
  if (issue.code !== 'invalid_union') return issue;
  const causes = issue.errors.flatMap(([first]) => {
    if (first === undefined) return [];
    const cause = findCause(first);
    return [{ ...cause, path: [...issue.path, ...cause.path] }];
  });
  return causes.reduce((best, cause) => (cause.path.length > best.path.length ? cause : best), issue);
}

/** The problem as a sentence; `whole` names the value itself. It quotes no more of the value than names of fields. */
export function describeIssue(found: Issue, whole: string): string {
  const issue = findCause(found);
  const subject = issue.path.length === 0 ? whole : `"${printable(issue.path.join('.'))}"`;
  switch (issue.code) {
    case 'unrecognized_keys':
      return `${subject} has an unknown field: "${printable(issue.keys[0] ?? '')}".`;
    case 'invalid_type':
      return `${subject} must be of type ${issue.expected}.`;
    case 'too_big':
      return `${subject} ${exceeds(issue.origin, Number(issue.maximum))}.`;
    case 'too_small':
      return `${subject} ${fallsShortOf(issue.origin, Number(issue.minimum))}.`;
    case 'invalid_value':
      return `${subject} must be one of: ${issue.values.join(', ')}.`;
    case 'invalid_union':
      return 'options' in issue && issue.options !== undefined
        ? `${subject} must be one of: ${issue.options.join(', ')}.`
        : `${subject} is not valid.`;
    default:
      return issue.message === 'Invalid input' ? `${subject} is not valid.` : `${subject}: ${issue.message}.`;
  }
}

function exceeds(origin: string, maximum: number): string {
  if (origin === 'string') return `is longer than ${maximum} characters`;
  return origin === 'array' ? `has more than ${maximum} items` : `is above its maximum of ${maximum}`;
}

function fallsShortOf(origin: string, minimum: number): string {
  if (origin !== 'string' && origin !== 'array') return `is below its minimum of ${minimum}`;
  if (minimum === 1) return 'must not be empty';
  return origin === 'string' ? `is shorter than ${minimum} characters` : `has fewer than ${minimum} items`;
}

/** A field name as the caller sent it, truncated and without characters that affect a terminal or a log. */
function printable(name: string): string {
  return name.replace(/[^\x20-\x7e]/g, '?').slice(0, 80);
}
