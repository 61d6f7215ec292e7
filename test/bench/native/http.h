/* What the load generator and the stub upstream share: a clock, loopback sockets, header look-up, the chunked decoder. */
#ifndef BENCH_HTTP_H
#define BENCH_HTTP_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

/* CLOCK_MONOTONIC in nanoseconds: the same clock in both programs, so that a mark written by one can be read by the other. */
static int64_t monotonic_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void raise_file_limit(void) {
  struct rlimit limit = {20000, 20000};
  setrlimit(RLIMIT_NOFILE, &limit);
}

static struct sockaddr_in loopback(int port) {
  struct sockaddr_in address = {0};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

static void no_delay(int fd) {
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* The value of a header in a NUL-terminated head, or NULL; `name` is given as "\r\nname:". */
static const char *header_value(const char *head, const char *name) {
  const char *found = strcasestr(head, name);
  return found ? found + strlen(name) : NULL;
}

/* Whether a header's own line contains a word. */
static int header_has(const char *head, const char *name, const char *word) {
  const char *value = header_value(head, name);
  if (!value) return 0;
  const char *hit = strcasestr(value, word), *end = strstr(value, "\r\n");
  return hit && (!end || hit < end);
}

enum { CHUNK_SIZE, CHUNK_BYTES, CHUNK_END, CHUNK_TRAILER };

typedef struct {
  int state;
  long long left;  /* bytes left of the chunk, or the size read so far */
  int line_length; /* of the trailer line being read */
} chunked;

/* Takes one step: eats at least one of the n bytes at p and says how many. Payload, if any, is those very bytes when
 * *payload is set. *done becomes 1 with the last byte of the body. */
static size_t chunked_step(chunked *c, const char *p, size_t n, int *payload, int *done) {
  char byte = *p;
  *payload = 0;
  switch (c->state) {
    case CHUNK_SIZE:
      if (byte == '\n') {
        c->state = c->left ? CHUNK_BYTES : CHUNK_TRAILER;
        c->line_length = 0;
      } else if (byte >= '0' && byte <= '9') {
        c->left = c->left * 16 + byte - '0';
      } else if ((byte | 32) >= 'a' && (byte | 32) <= 'f') {
        c->left = c->left * 16 + (byte | 32) - 'a' + 10;
      }
      return 1;
    case CHUNK_BYTES: {
      size_t take = (long long)n < c->left ? n : (size_t)c->left;
      *payload = 1;
      c->left -= take;
      if (!c->left) c->state = CHUNK_END;
      return take;
    }
    case CHUNK_END:
      if (byte == '\n') c->state = CHUNK_SIZE;
      return 1;
    default:
      if (byte == '\n') {
        if (!c->line_length) *done = 1;
        c->line_length = 0;
      } else if (byte != '\r') {
        c->line_length++;
      }
      return 1;
  }
}

#endif
