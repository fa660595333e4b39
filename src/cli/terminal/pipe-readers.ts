import { fstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';

const STDOUT = 1;
const WRITE_ONLY = 0o1;
const ACCESS_MODE = 0o3;

/**
 * Tells whether the readers of the pipe on stdout are gone. A writer learns that only by its next write, and a quiet tail
 * has none. Linux shows who has a pipe open (proc(5)); elsewhere, and where a reader is hidden from us, the answer is no.
 */
export function watchPipeReaders(ownPid: number): () => boolean {
  let pipe: string | undefined;
  let readers: readonly string[] | undefined;
  try {
    pipe = fstatSync(STDOUT).isFIFO() ? readlinkSync(`/proc/self/fd/${STDOUT}`) : undefined;
  } catch {
    pipe = undefined;
  }
  return () => {
    if (pipe === undefined || !pipe.startsWith('pipe:')) return false;
    const link = pipe;
    const isReading = (pid: string): boolean => hasOpenForReading(pid, link);
    if (readers?.some(isReading) === true) return false;
    const found = processes(ownPid).filter(isReading);
    // Only who was seen reading can be seen gone: a reader of another user never shows.
    const isGone = readers !== undefined && readers.length > 0 && found.length === 0;
    if (readers === undefined && found.length === 0) pipe = undefined;
    readers = found;
    return isGone;
  };
}

function processes(ownPid: number): string[] {
  try {
    return readdirSync('/proc').filter((name) => /^\d+$/.test(name) && name !== String(ownPid));
  } catch {
    return [];
  }
}

function hasOpenForReading(pid: string, pipe: string): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((descriptor) => {
      if (readlinkSync(`/proc/${pid}/fd/${descriptor}`) !== pipe) return false;
      const flags = /^flags:\s*0*([0-7]+)/m.exec(readFileSync(`/proc/${pid}/fdinfo/${descriptor}`, 'utf8'))?.[1];
      return (Number.parseInt(flags ?? '', 8) & ACCESS_MODE) !== WRITE_ONLY;
    });
  } catch {
    return false;
  }
}
