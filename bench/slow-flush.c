/*
 * Makes every flush to disk take FLUSH_MS milliseconds, to measure as on a slower disk:
 *   cc -shared -fPIC -o /tmp/slow-flush.so bench/slow-flush.c
 *   FLUSH_MS=2 LD_PRELOAD=/tmp/slow-flush.so node bench/throughput.mjs
 */
#include <stdlib.h>
#include <time.h>

static int wait_for_disk(void) {
  const char *ms = getenv("FLUSH_MS");
  long us = ms == NULL ? 0 : (long)(atof(ms) * 1000);
  struct timespec pause = {us / 1000000, us % 1000000 * 1000};
  /* A signal must not look like a disk error. */
  while (nanosleep(&pause, &pause) != 0) continue;
  return 0;
}

int fdatasync(int fd) {
  (void)fd;
  return wait_for_disk();
}

int fsync(int fd) {
  (void)fd;
  return wait_for_disk();
}
