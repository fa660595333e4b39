import { setTimeout as pause } from 'node:timers/promises';

/** Asks `question` repeatedly until the answer is neither undefined nor false. Fails after `deadlineMs`. */
export async function until<T>(
  what: string,
  question: () => Promise<T | undefined | false>,
  deadlineMs = 30_000,
): Promise<T> {
  const deadline = performance.now() + deadlineMs;
  for (;;) {
    const answer = await question();
    if (answer !== undefined && answer !== false) return answer;
    if (performance.now() > deadline) throw new Error(`not in ${deadlineMs} ms: ${what}`);
    await pause(20);
  }
}
