/* load.c - HTTP/1.1 load for JSON and SSE replies: one thread, epoll, no dependencies.
 *   closed loop (no --rate)  every connection sends its next request when the last one is answered
 *   open loop (--rate R)     requests are due at start + k/R; latency counts from then (no coordinated omission)
 * Prints one line of JSON about the window that begins after --warm (and --ramp) and lasts --dur seconds: what was
 * answered, latencies, and the CPU time and memory of the --pid processes over exactly that window; what was refused with a
 * 503 counts apart, its latency from when it was sent, and for each half second stands how many were served, were refused, and failed.
 */
#define _GNU_SOURCE
#include "processes.h"
#include "reply.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

typedef struct {
  int fd, connected, waiting; /* waiting: a request is out */
  size_t written;
  int64_t due, fired, last_mark;
  reply reply;
} connection;

static struct {
  int port, connections, ramp_ms;
  double rate, seconds, warm;
  const char *path, *body, *model;
  char headers[16384];
  processes measured, others;
} options = {.port = 8080, .connections = 50, .seconds = 5, .warm = 1, .path = "/v1/chat/completions"};

/* ---- samples, in ns */

typedef struct {
  uint32_t *values;
  size_t count, capacity;
} samples;

static samples latency, first_byte, chunk_latency, chunk_gap, refusal;

static void add(samples *s, int64_t ns) {
  if (s->count == s->capacity) {
    s->capacity = s->capacity ? s->capacity * 2 : 1 << 16;
    s->values = realloc(s->values, s->capacity * sizeof *s->values);
  }
  s->values[s->count++] = ns > UINT32_MAX ? UINT32_MAX : ns < 0 ? 0 : ns;
}

static int by_value(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static double percentile_us(const samples *s, double p) {
  if (!s->count) return 0;
  size_t i = s->count * p;
  return s->values[i < s->count ? i : s->count - 1] / 1000.0;
}

static void print_samples(const char *name, samples *s) {
  if (s->count) qsort(s->values, s->count, sizeof *s->values, by_value);
  printf(",\"%s\":{\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f,\"p999\":%.1f,\"max\":%.1f}", name, percentile_us(s, .5),
         percentile_us(s, .9), percentile_us(s, .99), percentile_us(s, .999), percentile_us(s, 1));
}

/* ---- requests */

static char *request;
static size_t request_length;
static struct sockaddr_in address;
static int epoll, measuring;
static long answered, failed, not_200, chunks, late, refused_connections;

static struct {
  int64_t start, busy, ours, cpu, rss_next;
  long user, system, rss_max;
} window;

/* What became of requests in each half second of the window. */
enum { SLICES = 2400 };
static struct {
  int served, refused, failed;
} slices[SLICES];
static connection *connections;
static int *idle, idle_first, idle_last, idle_count; /* a ring; open loop only */

static void begin_connection(connection *c) {
  c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  no_delay(c->fd);
  c->connected = c->waiting = 0;
  c->written = request_length;
  if (connect(c->fd, (void *)&address, sizeof address) && errno != EINPROGRESS) {
    perror("load: connect");
    exit(1);
  }
  struct epoll_event event = {EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, {.ptr = c}};
  epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
  reply_reset(&c->reply);
}

static void reopen(connection *c) {
  close(c->fd);
  begin_connection(c);
}

static void write_some(connection *c) {
  while (c->written < request_length) {
    ssize_t n = send(c->fd, request + c->written, request_length - c->written, MSG_NOSIGNAL);
    if (n < 0) return; /* full, or an end that the next read will see */
    c->written += n;
  }
}

static void fire(connection *c, int64_t due) {
  c->waiting = 1;
  c->due = due;
  c->fired = monotonic_ns();
  c->last_mark = 0;
  c->written = 0;
  reply_reset(&c->reply);
  if (c->connected) write_some(c);
}

/* The connection may carry another request. */
static void release(connection *c) {
  c->waiting = 0;
  if (options.rate > 0) {
    idle[idle_last] = c - connections;
    idle_last = (idle_last + 1) % options.connections;
    idle_count++;
  } else {
    fire(c, monotonic_ns());
  }
}

static void settle(connection *c, int ok) {
  int64_t now = monotonic_ns(), slice = (now - window.start) / 500000000;
  int refused = ok && c->reply.status == 503, kept = measuring && slice < SLICES;
  if (measuring && refused) {
    add(&refusal, now - c->fired);
    if (kept) slices[slice].refused++;
  } else if (measuring && ok) {
    answered++;
    add(&latency, now - c->due);
    if (c->reply.status != 200) not_200++;
    if (kept) slices[slice].served++;
  } else if (measuring) {
    failed++;
    if (kept) slices[slice].failed++;
  }
  if (!ok || c->reply.close_after) reopen(c);
  release(c);
}

static void on_body(void *who) {
  connection *c = who;
  if (measuring) add(&first_byte, monotonic_ns() - c->due);
}

static void on_mark(void *who, int64_t written_ns) {
  connection *c = who;
  int64_t now = monotonic_ns();
  if (measuring) {
    chunks++;
    add(&chunk_latency, now - written_ns);
    if (c->last_mark) add(&chunk_gap, now - c->last_mark);
  }
  c->last_mark = now;
}

static const reply_listener listener = {on_body, on_mark};

static void ended(connection *c) {
  if (!c->waiting) return reopen(c);
  int complete = reply_ends_with_connection(&c->reply);
  if (complete) c->reply.close_after = 1;
  settle(c, complete);
}

static void read_all(connection *c) {
  static char buffer[262144];
  for (;;) {
    ssize_t n = recv(c->fd, buffer, sizeof buffer, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0 && c->waiting) return settle(c, 0);
    if (n <= 0) return ended(c);
    if (!c->waiting) continue;
    int state = reply_feed(&c->reply, buffer, n, &listener, c), fd = c->fd;
    if (state == REPLY_BROKEN) return settle(c, 0);
    if (state == REPLY_COMPLETE) settle(c, 1);
    if (c->fd != fd || n < (ssize_t)sizeof buffer) return;
  }
}

/* The socket may be written for the first time, or again. */
static void writable(connection *c) {
  if (!c->connected) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error) {
      if (++refused_connections > 1000) {
        fprintf(stderr, "load: connect: %s\n", strerror(error));
        exit(1);
      }
      int was_waiting = c->waiting;
      if (was_waiting && measuring) failed++;
      reopen(c);
      if (was_waiting) release(c);
      return;
    }
    c->connected = 1;
  }
  write_some(c);
}

/* ---- the measured window */

static int64_t our_cpu(void) {
  return cpu_ns_of(getpid()) + cpu_ns(&options.measured) + cpu_ns(&options.others);
}

static void open_window(int64_t now) {
  measuring = 1;
  window.start = now;
  window.cpu = cpu_ns(&options.measured);
  cpu_ticks(&options.measured, &window.user, &window.system);
  window.busy = machine_busy_ns();
  window.ours = our_cpu();
}

static void watch_memory(int64_t now) {
  if (!measuring || !options.measured.count || now < window.rss_next) return;
  long rss = rss_kb(&options.measured);
  if (rss > window.rss_max) window.rss_max = rss;
  window.rss_next = now + 100000000;
}

static void report(int64_t now) {
  long user, system;
  cpu_ticks(&options.measured, &user, &system);
  double seconds = (now - window.start) / 1e9, cpu = (cpu_ns(&options.measured) - window.cpu) / 1e3;
  double foreign = (machine_busy_ns() - window.busy) - (our_cpu() - window.ours);
  printf("{\"seconds\":%.3f,\"requests\":%ld,\"errors\":%ld,\"not200\":%ld,\"late\":%ld,\"requestsPerSecond\":%.1f,"
         "\"chunks\":%ld,\"chunksPerSecond\":%.1f,\"cpuPercent\":%.1f,\"cpuPerRequest\":%.2f,\"cpuPerChunk\":%.3f,"
         "\"userMs\":%ld,\"systemMs\":%ld,\"rssMaxKb\":%ld,\"foreignPercent\":%.1f",
         seconds, answered, failed, not_200, late, answered / seconds, chunks, chunks / seconds, cpu / 1e4 / seconds,
         answered ? cpu / answered : 0, chunks ? cpu / chunks : 0, (user - window.user) * 10,
         (system - window.system) * 10, window.rss_max, foreign / 1e7 / seconds);
  printf(",\"refused\":%zu,\"slices\":[", refusal.count);
  for (int i = 0; i < SLICES && i < seconds * 2; i++)
    printf("%s[%d,%d,%d]", i ? "," : "", slices[i].served, slices[i].refused, slices[i].failed);
  printf("]");
  print_samples("refusal", &refusal);
  print_samples("latency", &latency);
  print_samples("firstByte", &first_byte);
  print_samples("chunk", &chunk_latency);
  print_samples("gap", &chunk_gap);
  printf("}\n");
}

/* ---- the event loop */

static int64_t earliest(int64_t wait, int64_t now, int64_t at) {
  int64_t until = at > now ? at - now : 0;
  return until < wait ? until : wait;
}

static void run(void) {
  int64_t start = monotonic_ns(), step = options.rate > 0 ? 1e9 / options.rate : 0, sent = 0;
  int64_t from = start + (int64_t)((options.warm + options.ramp_ms / 1000.0) * 1e9);
  int64_t until = from + (int64_t)(options.seconds * 1e9);
  struct epoll_event events[512];
  for (int opened = 0;;) {
    int64_t now = monotonic_ns();
    while (opened < options.connections &&
           now >= start + options.ramp_ms * 1000000LL * opened / options.connections) {
      begin_connection(&connections[opened]);
      release(&connections[opened++]);
      if (options.ramp_ms && opened % 16 == 0) break;
    }
    if (!measuring && now >= from) open_window(now);
    watch_memory(now);
    if (measuring && now >= until) return report(now);
    for (; step && now >= start + sent * step; sent++) {
      if (!idle_count) {
        late++;
        break;
      }
      connection *c = &connections[idle[idle_first]];
      idle_first = (idle_first + 1) % options.connections;
      idle_count--;
      fire(c, start + sent * step);
    }
    int64_t wait = earliest(100000000, now, measuring ? until : from);
    if (opened < options.connections) wait = earliest(wait, now, now + 1000000);
    if (step) wait = earliest(wait, now, idle_count ? start + sent * step : now + 200000);
    struct timespec timeout = {0, wait};
    int count = epoll_pwait2(epoll, events, 512, &timeout, NULL);
    for (int i = 0; i < count; i++) {
      connection *c = events[i].data.ptr;
      int fd = c->fd;
      if (events[i].events & EPOLLOUT) writable(c);
      if (c->fd == fd && events[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) read_all(c);
    }
  }
}

/* ---- argv and the request's bytes */

static void read_options(int argc, char **argv) {
  for (int i = 1; i < argc; i += 2) {
    char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
    if (!strcmp(name, "--port")) options.port = atoi(value);
    else if (!strcmp(name, "--connections")) options.connections = atoi(value);
    else if (!strcmp(name, "--rate")) options.rate = atof(value);
    else if (!strcmp(name, "--dur")) options.seconds = atof(value);
    else if (!strcmp(name, "--warm")) options.warm = atof(value);
    else if (!strcmp(name, "--ramp")) options.ramp_ms = atoi(value);
    else if (!strcmp(name, "--path")) options.path = value;
    else if (!strcmp(name, "--body")) options.body = value;
    else if (!strcmp(name, "--model")) options.model = value;
    else if (!strcmp(name, "--pid")) processes_add(&options.measured, value);
    else if (!strcmp(name, "--others")) processes_add(&options.others, value);
    else if (!strcmp(name, "--header")) strcat(strcat(options.headers, value), "\r\n");
    else {
      fprintf(stderr, "load: what is %s?\n", name);
      exit(2);
    }
  }
}

/* The body's file with "MODEL" replaced by the model's name. */
static char *read_body(size_t *length) {
  FILE *file = fopen(options.body, "r");
  if (!file) {
    perror(options.body);
    exit(1);
  }
  fseek(file, 0, SEEK_END);
  size_t size = ftell(file), model_length = strlen(options.model);
  rewind(file);
  char *text = malloc(size + 1), *body = malloc(size + model_length + 1);
  text[fread(text, 1, size, file)] = 0;
  fclose(file);
  char *place = strstr(text, "\"MODEL\"");
  if (!place) {
    fprintf(stderr, "load: %s: no \"MODEL\" to fill\n", options.body);
    exit(1);
  }
  *length = sprintf(body, "%.*s%s%s", (int)(place + 1 - text), text, options.model, place + 6);
  free(text);
  return body;
}

static void build_request(void) {
  static const char *CLIENT_HEADERS = /* as a vendor's own client library sends them */
      "Accept: application/json\r\nUser-Agent: OpenAI/JS 5.12.2\r\nX-Stainless-Retry-Count: 0\r\n"
      "X-Stainless-Timeout: 600\r\nX-Stainless-Lang: js\r\nX-Stainless-Package-Version: 5.12.2\r\n"
      "X-Stainless-OS: Linux\r\nX-Stainless-Arch: x64\r\nX-Stainless-Runtime: node\r\n"
      "X-Stainless-Runtime-Version: v22.14.0\r\nAccept-Language: *\r\n";
  size_t length;
  char *body = read_body(&length);
  request = malloc(length + sizeof options.headers + 4096);
  request_length = sprintf(request,
                           "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: keep-alive\r\n"
                           "Content-Type: application/json\r\n%s%sContent-Length: %zu\r\n\r\n",
                           options.path, options.port, CLIENT_HEADERS, options.headers, length);
  memcpy(request + request_length, body, length);
  request_length += length;
  free(body);
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN);
  raise_file_limit();
  read_options(argc, argv);
  if (!options.body || !options.model) {
    fprintf(stderr, "load: --body FILE and --model NAME are needed\n");
    return 2;
  }
  build_request();
  address = loopback(options.port);
  epoll = epoll_create1(0);
  connections = calloc(options.connections, sizeof *connections);
  idle = malloc(options.connections * sizeof *idle);
  run();
  return 0;
}
