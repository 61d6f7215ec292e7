/* CPU time and memory of processes, read over exactly the measured window. */
#ifndef BENCH_PROCESSES_H
#define BENCH_PROCESSES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  pid_t ids[64];
  int count;
} processes;

/* Adds a list such as "12,13". */
static void processes_add(processes *list, char *ids) {
  for (char *id = strtok(ids, ","); id && list->count < 64; id = strtok(NULL, ",")) list->ids[list->count++] = atoi(id);
}

/* CPU time of all threads in ns: the scheduler's own account, not clock ticks. */
static int64_t cpu_ns_of(pid_t id) {
  clockid_t clock;
  struct timespec t;
  if (clock_getcpuclockid(id, &clock) || clock_gettime(clock, &t)) return 0;
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int64_t cpu_ns(const processes *list) {
  int64_t sum = 0;
  for (int i = 0; i < list->count; i++) sum += cpu_ns_of(list->ids[i]);
  return sum;
}

/* User and system time in clock ticks of 10 ms. */
static void cpu_ticks(const processes *list, long *user, long *system) {
  *user = *system = 0;
  for (int i = 0; i < list->count; i++) {
    char path[64], text[1024];
    sprintf(path, "/proc/%d/stat", list->ids[i]);
    FILE *file = fopen(path, "r");
    if (!file) continue;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    const char *after_name = strrchr(text, ')');
    long u, s;
    const char *fields = "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld";
    if (after_name && sscanf(after_name + 2, fields, &u, &s) == 2) {
      *user += u;
      *system += s;
    }
  }
}

/* Resident memory in KB. */
static long rss_kb(const processes *list) {
  long sum = 0;
  for (int i = 0; i < list->count; i++) {
    char path[64], line[256];
    sprintf(path, "/proc/%d/status", list->ids[i]);
    FILE *file = fopen(path, "r");
    if (!file) continue;
    while (fgets(line, sizeof line, file))
      if (!strncmp(line, "VmRSS:", 6)) sum += atol(line + 6);
    fclose(file);
  }
  return sum;
}

/* CPU time of the whole machine in ns, without idling. */
static int64_t machine_busy_ns(void) {
  long v[8] = {0};
  FILE *file = fopen("/proc/stat", "r");
  if (!file) return 0;
  int read = fscanf(file, "cpu %ld %ld %ld %ld %ld %ld %ld %ld", v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6, v + 7);
  fclose(file);
  return read == 8 ? (v[0] + v[1] + v[2] + v[5] + v[6] + v[7]) * 10000000LL : 0;
}

#endif
