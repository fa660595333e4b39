export type StartErrorCode =
  /** Another program listens there. */
  | 'PORT_IN_USE'
  /** The address is not one of this machine, or may not be used by this user. */
  | 'ADDRESS_NOT_AVAILABLE'
  /** Another service uses the data. */
  | 'DATA_IN_USE'
  /** It cannot be reached, lets nobody in, or is not such that data are safe there. */
  | 'DATABASE_NOT_USABLE'
  /** The folder of the attachments belongs to other data. */
  | 'ATTACHMENTS_NOT_USABLE'
  /** Its address makes no sense, or its credentials cannot be read. */
  | 'BUS_NOT_USABLE'
  /** Tokens would cross the network in the clear. */
  | 'NOT_ENCRYPTED'
  | 'INVALID_PUBLIC_URL'
  /** Its handle belongs to an account that somebody signed up for, or was used by an agent that is gone. */
  | 'SEED_NOT_AVAILABLE';

/** Why a service did not start. Nothing of it is left running. */
export class StartError extends Error {
  override readonly name = 'StartError';
  readonly code: StartErrorCode;

  constructor(code: StartErrorCode, message: string, cause?: unknown) {
    super(message, { cause });
    this.code = code;
  }
}
