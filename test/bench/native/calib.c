/* calib.c - CPU time (us) of a fixed piece of work: integer mixing over a 1 MB table.
 * Run on the proxies' core before and after a benchmark; a different answer means the core itself became slower. */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum { CELLS = 1 << 18, STEPS = 6000000 };

static double cpu_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

int main(void) {
  static uint32_t table[CELLS];
  uint64_t x = 88172645463325252ULL;
  uint32_t sum = 0;
  for (uint32_t i = 0; i < CELLS; i++) table[i] = i * 2654435761u;
  double start = cpu_us();
  for (int i = 0; i < STEPS; i++) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    sum += table[x & (CELLS - 1)];
    table[(x >> 20) & (CELLS - 1)] ^= sum;
  }
  printf("%.0f %u\n", cpu_us() - start, sum & 1);
  return 0;
}
