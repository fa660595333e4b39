import { fileFault, isFileError } from '../kit/private-file.js';
import { CliError } from './errors.js';

/**
 * The error for a file that the user named and that could not be written: `ASP_OUTPUT` if the disk is full or broken,
 * otherwise `ASP_USAGE`, such as without permission. Every other error stays as it is.
 */
export function unusableFile(message: string, error: unknown): unknown {
  const fault = fileFault(error);
  if (fault === undefined) return error;
  const code = isFileError(error, 'ENOSPC', 'EDQUOT', 'EIO') ? 'ASP_OUTPUT' : 'ASP_USAGE';
  return new CliError(code, { message, why: `${fault}.`, cause: error });
}
