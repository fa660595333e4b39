import type { RecordedOperation } from '../../wire/schemas/operator.js';
import { withoutMapping } from '../agents/activity.js';
import type { ServiceContext } from '../core/context.js';
import { ServiceError } from '../core/errors.js';
import { concludeOperatorAction, insertOperatorAction } from '../store/operator.js';

/** Who acts as an operator, and from where. */
export interface ActingOperator {
  /** Undefined: the person who holds the secret of the service on its machine, or a token. */
  readonly username?: string;
  /** The name of the token that it uses from another machine; empty if the token has none. */
  readonly token?: string;
  readonly address?: string;
  readonly browserName?: string;
}

export interface OperatorAction {
  readonly operation: RecordedOperation;
  readonly target: string;
  /** The fields that it sets; or what it did, filled in as it goes. */
  readonly changes?: object;
}

/** Before the name of a token, where others have the name of their account, which has no colon. */
export const TOKEN_PREFIX = 'token:';

/**
 * Does something that only operators may do. Its entry is written before it begins, so nothing is done without an
 * entry; an entry without an outcome was interrupted.
 */
export async function actAsOperator<Answer>(
  context: Pick<ServiceContext, 'clock' | 'ids' | 'database' | 'log'>,
  { username = '', token, address = '', browserName = '' }: ActingOperator,
  { operation, target, changes = {} }: OperatorAction,
  work: () => Promise<Answer>,
): Promise<Answer> {
  const { clock, ids, database, log } = context;
  const id = ids.ulid();
  await database.write((transaction) =>
    insertOperatorAction(transaction, {
      id,
      operator_name: token === undefined ? username : `${TOKEN_PREFIX}${token}`,
      operation,
      target,
      changes: JSON.stringify(changes),
      address: withoutMapping(address),
      browser_name: browserName,
      created_at: clock.now(),
    }),
  );
  const conclude = async (outcome: string): Promise<void> => {
    logOperatorAction(log, { operation, target, outcome, username, token, address });
    await database
      .write((transaction) => concludeOperatorAction(transaction, id, { outcome, changes: JSON.stringify(changes) }))
      .catch((error) => log.error('operator_action_not_concluded', error, { operation }));
  };
  try {
    const answer = await work();
    await conclude('done');
    return answer;
  } catch (error) {
    await conclude(error instanceof ServiceError ? error.code : 'failed');
    throw error;
  }
}

interface LoggedAction {
  readonly operation: RecordedOperation;
  readonly target: string;
  readonly outcome: string;
  readonly username?: string;
  readonly token?: string | undefined;
  readonly address?: string;
}

/** Records an action in the security log. */
export function logOperatorAction(
  log: ServiceContext['log'],
  { operation, target, outcome, username = '', token, address = '' }: LoggedAction,
): void {
  log.security?.('operator_acted', {
    operation,
    ...(target !== '' && { target }),
    ...(username !== '' && { account: username }),
    ...(token !== undefined && { operator_token: token }),
    ...(address !== '' && { address }),
    outcome,
  });
}
