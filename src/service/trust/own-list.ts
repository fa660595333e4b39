import { Handle, joinHandle } from '../../wire/handle.js';
import type { AgentActor } from '../context.js';
import { ServiceError } from '../service-error.js';

/** A list belongs to the acting agent alone; any other agent's is FORBIDDEN, whether or not there is such an agent. */
export function requireOwnList(
  actor: Pick<AgentActor, 'handle'>,
  path: { readonly owner: string; readonly name: string },
): void {
  const handle = Handle.safeParse(joinHandle(path.owner, path.name));
  if (!handle.success) throw new ServiceError('INVALID_HANDLE');
  if (handle.data !== actor.handle) throw new ServiceError('FORBIDDEN');
}
