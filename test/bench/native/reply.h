/* Reads replies as they come: head, body by length or chunks, and the marks @T<16 hex>@ that stub.c wrote into it. */
#ifndef BENCH_REPLY_H
#define BENCH_REPLY_H

#include "http.h"

enum { HEAD_MAX = 16384, MARK = 19, BORDER = MARK - 1 };

typedef struct {
  char head[HEAD_MAX];
  int head_length, head_done;
  int status, close_after, is_chunked;
  int64_t left; /* of a body with a content-length; -1: until the connection ends */
  chunked decoder;
  int body_begun;
  char carry[BORDER]; /* the body's last bytes: a mark may stand across two reads */
  int carried;
} reply;

/* What a reader of replies is told. */
typedef struct {
  void (*body_began)(void *who);
  void (*mark)(void *who, int64_t written_ns);
} reply_listener;

enum { REPLY_MORE, REPLY_COMPLETE, REPLY_BROKEN };

static void reply_reset(reply *r) {
  r->head_length = r->head_done = r->body_begun = r->carried = 0;
}

static const char *mark_at(const char *p, const char *end) {
  const char *found = memmem(p, end - p, "@T", 2);
  return found && end - found >= MARK ? found : NULL;
}

static void tell_mark(const char *p, const reply_listener *listener, void *who) {
  if (p[MARK - 1] == '@') listener->mark(who, strtoll(p + 2, NULL, 16));
}

static void find_marks(reply *r, const char *p, size_t n, const reply_listener *listener, void *who) {
  const char *end = p + n, *found;
  if (r->carried) {
    char border[2 * MARK + 1] = {0};
    size_t k = n < MARK ? n : MARK;
    memcpy(border, r->carry, r->carried);
    memcpy(border + r->carried, p, k);
    found = mark_at(border, border + r->carried + k);
    if (found && found - border < r->carried) tell_mark(found, listener, who);
  }
  for (const char *from = p; (found = mark_at(from, end)); from = found + (found[MARK - 1] == '@' ? MARK : 2))
    tell_mark(found, listener, who);
  if (n >= BORDER) {
    memcpy(r->carry, end - BORDER, BORDER);
    r->carried = BORDER;
  } else {
    size_t keep = r->carried + n > BORDER ? BORDER - n : (size_t)r->carried;
    memmove(r->carry, r->carry + r->carried - keep, keep);
    memcpy(r->carry + keep, p, n);
    r->carried = keep + n;
  }
}

/* Eats bytes of a head; returns how many, or -1 when it is too long. */
static ssize_t feed_head(reply *r, const char *p, size_t n) {
  size_t room = HEAD_MAX - 1 - r->head_length, take = n < room ? n : room;
  memcpy(r->head + r->head_length, p, take);
  r->head_length += take;
  r->head[r->head_length] = 0;
  char *end = memmem(r->head, r->head_length, "\r\n\r\n", 4);
  if (!end) return take == room ? -1 : (ssize_t)take;
  size_t too_much = r->head + r->head_length - (end + 4);
  end[2] = 0;
  r->status = atoi(r->head + 9);
  r->head_done = 1;
  r->decoder = (chunked){0};
  r->close_after = header_has(r->head, "\r\nconnection:", "close");
  r->is_chunked = header_has(r->head, "\r\ntransfer-encoding:", "chunked");
  const char *length = header_value(r->head, "\r\ncontent-length:");
  r->left = length && !r->is_chunked ? atoll(length) : -1;
  if (r->status == 100) reply_reset(r);
  return take - too_much;
}

/* Takes what was read from the socket. */
static int reply_feed(reply *r, const char *p, size_t n, const reply_listener *listener, void *who) {
  while (n) {
    ssize_t eaten;
    int payload = 1, done = 0;
    if (!r->head_done) {
      eaten = feed_head(r, p, n);
      if (eaten < 0) return REPLY_BROKEN;
      if (r->head_done && r->left == 0) return REPLY_COMPLETE;
      payload = 0;
    } else {
      if (!r->body_begun) listener->body_began(who);
      r->body_begun = 1;
      if (r->is_chunked) {
        eaten = chunked_step(&r->decoder, p, n, &payload, &done);
      } else {
        eaten = r->left >= 0 && (int64_t)n > r->left ? r->left : (int64_t)n;
        if (r->left >= 0) done = !(r->left -= eaten);
      }
    }
    if (payload) find_marks(r, p, eaten, listener, who);
    if (done) return REPLY_COMPLETE;
    p += eaten;
    n -= eaten;
  }
  return REPLY_MORE;
}

/* Whether the connection's end is the reply's end. */
static int reply_ends_with_connection(const reply *r) {
  return r->head_done && !r->is_chunked && r->left < 0;
}

#endif
