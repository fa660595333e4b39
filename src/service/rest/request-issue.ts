import type * as z from 'zod/mini';

import { ServiceError } from '../service-error.js';

type Issue = z.core.$ZodIssue;

/** Where request bodies hold handles: a value there that is none has an error code of its own (spec: Handle). */
const HANDLE_POSITION = /^(?:handle|(?:invite|entries)\.\d+)$/;

/** The error for a query or a body that its schema refuses. It speaks of the request alone, never of what is stored. */
export function errorOfIssues(issues: readonly Issue[]): ServiceError {
  const issue = issues.find((candidate) => !isAboutHandle(candidate));
  if (issue === undefined) return new ServiceError('INVALID_HANDLE');
  return new ServiceError('VALIDATION_ERROR', describe(issue));
}

function isAboutHandle(issue: Issue): boolean {
  const isMissing = issue.input === undefined && issue.path.at(-1) === 'handle';
  return HANDLE_POSITION.test(issue.path.join('.')) && !isMissing;
}

function describe(issue: Issue): string {
  const place = issue.path.length === 0 ? 'The request' : `"${printable(issue.path.join('.'))}"`;
  switch (issue.code) {
    case 'unrecognized_keys':
      return `${place} has an unknown field: "${printable(issue.keys[0] ?? '')}".`;
    case 'invalid_type':
      return `${place} must be of type ${issue.expected}.`;
    case 'too_big':
      return `${place} is above its maximum of ${issue.maximum}.`;
    case 'too_small':
      return `${place} is below its minimum of ${issue.minimum}.`;
    case 'invalid_value':
      return `${place} must be one of: ${issue.values.join(', ')}.`;
    default:
      return issue.message === 'Invalid input' ? `${place} is not valid.` : `${place}: ${issue.message}.`;
  }
}

/** A field name as the caller sent it, cut and without what a terminal or a log could act on. */
function printable(name: string): string {
  return name.replace(/[^\x20-\x7e]/g, '?').slice(0, 80);
}
