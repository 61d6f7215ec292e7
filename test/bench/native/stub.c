/* stub.c - a model vendor for benchmarks: HTTP/1.1, one thread, epoll, no dependencies.      usage: stub PORT
 *
 * The model's name in the request body chooses the behaviour, so that the wish survives any proxy:
 *   stub-json        a chat.completion of about 600 bytes
 *   stub-sse-N-I     N chunks of about 190 bytes, one every I ms (I = 0: a burst, one write each), then usage and [DONE]
 *   stub-abort-N-I   the same, but the connection is reset after N chunks
 *   stub-close-N-I   the same, but the connection is closed in the middle of the chunk that follows
 *   stub-hang        never answers
 *   stub-slow-M      the JSON after M ms
 * Each chunk carries @T<16 hex digits of CLOCK_MONOTONIC, ns>@, from which load.c reads the chunk's latency.
 * GET /stats answers counters; any other GET an empty list.
 */
#define _GNU_SOURCE
#include "http.h"
#include "stub_model.h"
#include "stub_texts.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { HEAD_MAX = 65536, OUT_HIGH = 262144 };
enum mode { JSON, SSE, ABORT, CLOSE, HANG, SLOW };

typedef struct connection {
  int fd;
  char *head;
  int head_length;
  int in_body, is_chunked, is_get, close_after;
  long long left; /* of a body with a content-length */
  chunked decoder;
  char path[64];
  model_name model;
  char *out; /* what the socket did not take yet */
  size_t out_offset, out_length, out_capacity;
  int wants_out;
  int busy, total, sent, interval;
  enum mode mode;
  int64_t due; /* ms */
  struct connection *previous, *next;
  int slot; /* in the timer wheel, or -1 */
} connection;

static struct {
  long accepted, open, requests, active, done, client_gone, bytes_in, by_length, by_chunks;
} stats;

static int epoll;
static char json_reply[4096], sse_head[4096];
static int json_reply_length, sse_head_length;

/* ---- timers: a wheel of one slot per millisecond */

enum { SLOTS = 8192 };
static connection *wheel[SLOTS];
static int64_t wheel_ms, now_ms;
static long timers;

static int timer_add(connection *c, int64_t at) {
  if (at <= wheel_ms) at = wheel_ms + 1;
  c->due = at;
  c->slot = at & (SLOTS - 1);
  c->previous = NULL;
  c->next = wheel[c->slot];
  if (c->next) c->next->previous = c;
  wheel[c->slot] = c;
  timers++;
  return 0;
}

static void timer_remove(connection *c) {
  if (c->slot < 0) return;
  if (c->previous) c->previous->next = c->next;
  else wheel[c->slot] = c->next;
  if (c->next) c->next->previous = c->previous;
  c->slot = -1;
  timers--;
}

/* ---- connections. Whatever returns -1 says that the connection is gone. */

static connection *graveyard; /* freed after the batch of events that may point at them */

static int drop(connection *c, int reset) {
  if (c->busy) {
    stats.active--;
    if (!reset) stats.client_gone++;
  }
  timer_remove(c);
  if (reset) {
    struct linger at_once = {1, 0};
    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  close(c->fd);
  c->fd = -1;
  stats.open--;
  c->next = graveyard;
  graveyard = c;
  return -1;
}

static void bury(void) {
  while (graveyard) {
    connection *c = graveyard;
    graveyard = c->next;
    free(c->head);
    free(c->out);
    free(c);
  }
}

static void want_out(connection *c, int wanted) {
  if (c->wants_out == wanted) return;
  c->wants_out = wanted;
  struct epoll_event event = {EPOLLIN | EPOLLRDHUP | (wanted ? EPOLLOUT : 0), {.ptr = c}};
  epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &event);
}

static int put(connection *c, const char *p, size_t n) {
  if (c->out_length == c->out_offset) {
    ssize_t written = send(c->fd, p, n, MSG_NOSIGNAL);
    if (written < 0) {
      if (errno != EAGAIN) return -1;
      written = 0;
    }
    p += written;
    n -= written;
    if (!n) return 0;
    c->out_offset = c->out_length = 0;
  }
  if (c->out_length + n > c->out_capacity) {
    c->out_capacity = (c->out_length + n) * 2;
    c->out = realloc(c->out, c->out_capacity);
  }
  memcpy(c->out + c->out_length, p, n);
  c->out_length += n;
  want_out(c, 1);
  return 0;
}

static int finish(connection *c) {
  c->busy = 0;
  stats.active--;
  stats.done++;
  if (c->close_after && c->out_length == c->out_offset) shutdown(c->fd, SHUT_WR);
  return 0;
}

/* ---- replies */

static int put_event(connection *c) {
  char event[512], chunk[600];
  int n = sprintf(event, SSE_EVENT, (unsigned long long)monotonic_ns());
  return put(c, chunk, sprintf(chunk, "%x\r\n%s\r\n", n, event));
}

static int put_tail(connection *c) {
  char events[1024], chunk[1200];
  int n = sprintf(events, SSE_TAIL, c->total, c->total + 19);
  return put(c, chunk, sprintf(chunk, "%x\r\n%s\r\n0\r\n\r\n", n, events));
}

/* Sends what is due of a stream. */
static int advance(connection *c) {
  for (;;) {
    if (c->sent >= c->total) {
      if (c->mode == ABORT || c->mode == CLOSE) {
        if (c->mode == CLOSE) {
          put(c, "40\r\ndata: {\"id\":", 17);
          stats.client_gone--; /* it is we who go */
        }
        stats.done++;
        return drop(c, c->mode == ABORT);
      }
      return put_tail(c) < 0 ? drop(c, 0) : finish(c);
    }
    if (put_event(c) < 0) return drop(c, 0);
    c->sent++;
    if (c->interval) return timer_add(c, c->due + c->interval);
    if (c->out_length - c->out_offset > OUT_HIGH) return 0; /* goes on when the socket takes more */
  }
}

static int reply_json(connection *c) {
  return put(c, json_reply, json_reply_length) < 0 ? drop(c, 0) : finish(c);
}

static int reply_get(connection *c) {
  char body[1024] = "{\"object\":\"list\",\"data\":[]}", reply[1400];
  if (!strncmp(c->path, "/stats", 6)) { /* without this very connection and request */
    sprintf(body,
            "{\"accepted\":%ld,\"open\":%ld,\"requests\":%ld,\"active\":%ld,\"done\":%ld,\"client_gone\":%ld,"
            "\"bytes_in\":%ld,\"by_length\":%ld,\"by_chunks\":%ld}",
            stats.accepted, stats.open - 1, stats.requests, stats.active - 1, stats.done, stats.client_gone,
            stats.bytes_in, stats.by_length, stats.by_chunks);
  }
  int n = sprintf(reply, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
                  (int)strlen(body), body);
  if (put(c, reply, n) < 0) return drop(c, 0);
  stats.done--;
  return finish(c);
}

static int reply(connection *c) {
  stats.active++;
  c->busy = 1;
  c->mode = JSON;
  c->sent = c->total = c->interval = 0;
  if (c->is_get) return reply_get(c);
  stats.requests++;
  int a = 0, b = 0;
  if (sscanf(c->model.name, "stub-sse-%d-%d", &a, &b) == 2) c->mode = SSE;
  else if (sscanf(c->model.name, "stub-abort-%d-%d", &a, &b) == 2) c->mode = ABORT;
  else if (sscanf(c->model.name, "stub-close-%d-%d", &a, &b) == 2) c->mode = CLOSE;
  else if (!strncmp(c->model.name, "stub-hang", 9)) c->mode = HANG;
  else if (sscanf(c->model.name, "stub-slow-%d", &a) == 1) c->mode = SLOW;
  c->total = a;
  c->interval = b;
  if (c->mode == JSON) return reply_json(c);
  if (c->mode == HANG) return 0;
  if (c->mode == SLOW) return timer_add(c, now_ms + a);
  if (put(c, sse_head, sse_head_length) < 0) return drop(c, 0);
  c->due = now_ms;
  return advance(c);
}

static int run_timer(connection *c) {
  timer_remove(c);
  return c->mode == SLOW ? reply_json(c) : advance(c);
}

/* ---- requests */

static int end_of_request(connection *c) {
  if (reply(c) < 0) return -1;
  c->head_length = c->in_body = 0;
  c->model = (model_name){0};
  return 0;
}

static int read_head(connection *c) {
  c->in_body = 1;
  c->left = 0;
  c->decoder = (chunked){0};
  c->is_get = !strncmp(c->head, "GET ", 4);
  if (c->is_get) sscanf(c->head, "GET %63s", c->path);
  const char *length = header_value(c->head, "\r\ncontent-length:");
  if (length) c->left = atoll(length);
  c->is_chunked = header_has(c->head, "\r\ntransfer-encoding:", "chunked");
  c->close_after = header_has(c->head, "\r\nconnection:", "close");
  if (length && !c->is_get) stats.by_length++;
  if (c->is_chunked) stats.by_chunks++;
  if (header_value(c->head, "\r\nexpect:")) put(c, "HTTP/1.1 100 Continue\r\n\r\n", 25);
  return !c->is_chunked && !c->left ? end_of_request(c) : 0;
}

/* Collects a head; returns how many bytes it ate, or -1. */
static ssize_t feed_head(connection *c, const char *p, size_t n) {
  if (!c->head) c->head = malloc(HEAD_MAX);
  size_t room = HEAD_MAX - 1 - c->head_length, take = n < room ? n : room;
  int from = c->head_length > 3 ? c->head_length - 3 : 0;
  memcpy(c->head + c->head_length, p, take);
  c->head_length += take;
  c->head[c->head_length] = 0;
  char *end = memmem(c->head + from, c->head_length - from, "\r\n\r\n", 4);
  if (!end) return take == room ? drop(c, 0) : (ssize_t)take;
  size_t too_much = c->head + c->head_length - (end + 4);
  end[2] = 0;
  return read_head(c) < 0 ? -1 : (ssize_t)(take - too_much);
}

static int feed(connection *c, const char *p, size_t n) {
  while (n) {
    ssize_t eaten;
    int payload = 1, done = 0;
    if (!c->in_body) {
      eaten = feed_head(c, p, n);
      if (eaten < 0) return -1;
      payload = 0;
    } else if (c->is_chunked) {
      eaten = chunked_step(&c->decoder, p, n, &payload, &done);
    } else {
      eaten = (long long)n < c->left ? (long long)n : c->left;
      c->left -= eaten;
      done = !c->left;
    }
    if (payload) {
      stats.bytes_in += eaten;
      model_look(&c->model, p, eaten);
    }
    if (done && end_of_request(c) < 0) return -1;
    p += eaten;
    n -= eaten;
  }
  return 0;
}

/* ---- the event loop */

static void accept_all(int listener) {
  for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
    no_delay(fd);
    connection *c = calloc(1, sizeof *c);
    c->fd = fd;
    c->slot = -1;
    stats.accepted++;
    stats.open++;
    struct epoll_event event = {EPOLLIN | EPOLLRDHUP, {.ptr = c}};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
  }
}

static int flush(connection *c) {
  ssize_t written = send(c->fd, c->out + c->out_offset, c->out_length - c->out_offset, MSG_NOSIGNAL);
  if (written < 0 && errno != EAGAIN) return drop(c, 0);
  if (written > 0) c->out_offset += written;
  if (c->out_offset < c->out_length) return 0;
  c->out_offset = c->out_length = 0;
  want_out(c, 0);
  if (c->busy && !c->interval && c->mode >= SSE && c->mode <= CLOSE) return advance(c);
  if (!c->busy && c->close_after) shutdown(c->fd, SHUT_WR);
  return 0;
}

static void read_some(connection *c) {
  static char buffer[262144];
  for (int turn = 0; turn < 8; turn++) { /* then the others */
    ssize_t n = recv(c->fd, buffer, sizeof buffer, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      drop(c, 0);
      return;
    }
    if (feed(c, buffer, n) < 0 || n < (ssize_t)sizeof buffer) return;
  }
}

static void run_timers(void) {
  while (wheel_ms < now_ms && timers) {
    wheel_ms++;
    for (connection *c = wheel[wheel_ms & (SLOTS - 1)], *next; c; c = next) {
      next = c->next;
      if (c->due <= wheel_ms) run_timer(c);
    }
  }
  if (wheel_ms < now_ms) wheel_ms = now_ms;
}

static int listen_on(int port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  struct sockaddr_in address = loopback(port);
  if (!bind(fd, (void *)&address, sizeof address) && !listen(fd, 4096)) return fd;
  perror("stub: bind");
  exit(1);
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN);
  raise_file_limit();
  json_reply_length =
      sprintf(json_reply, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s",
              (int)strlen(JSON_BODY), COMMON_HEADERS, JSON_BODY);
  sse_head_length = sprintf(sse_head,
                            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
                            "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n%s\r\n",
                            COMMON_HEADERS);
  int listener = listen_on(argc > 1 ? atoi(argv[1]) : 9000);
  epoll = epoll_create1(0);
  struct epoll_event event = {EPOLLIN, {.ptr = NULL}}, events[512];
  epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
  wheel_ms = now_ms = monotonic_ns() / 1000000;
  for (;;) {
    int count = epoll_wait(epoll, events, 512, timers ? 1 : 1000);
    now_ms = monotonic_ns() / 1000000;
    if (!timers) wheel_ms = now_ms;
    run_timers();
    for (int i = 0; i < count; i++) {
      connection *c = events[i].data.ptr;
      if (!c) {
        accept_all(listener);
        continue;
      }
      if (c->fd < 0) continue;
      if (events[i].events & (EPOLLERR | EPOLLHUP)) {
        drop(c, 0);
        continue;
      }
      if (events[i].events & EPOLLOUT && flush(c) < 0) continue;
      if (events[i].events & (EPOLLIN | EPOLLRDHUP)) read_some(c);
    }
    bury();
  }
}
