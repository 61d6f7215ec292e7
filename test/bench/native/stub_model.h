/* Finds the model's name in a request body that comes in pieces. */
#ifndef BENCH_STUB_MODEL_H
#define BENCH_STUB_MODEL_H

enum { MODEL_MAX = 48, CARRY = 63 };

typedef struct {
  char name[MODEL_MAX];
  int found;
  char carry[CARRY]; /* the body's last bytes: the name may stand across two pieces */
  size_t carried;
} model_name;

static int model_take(model_name *model, const char *p, size_t n) {
  const char *start = memmem(p, n, "\"stub-", 6);
  if (!start) return 0;
  start++;
  const char *end = memchr(start, '"', p + n - start);
  if (!end || end - start >= MODEL_MAX) return 0;
  memcpy(model->name, start, end - start);
  model->name[end - start] = 0;
  return model->found = 1;
}

static void model_look(model_name *model, const char *p, size_t n) {
  if (model->found) return;
  if (model->carried) {
    char border[CARRY + 80];
    size_t k = n < 80 ? n : 80;
    memcpy(border, model->carry, model->carried);
    memcpy(border + model->carried, p, k);
    if (model_take(model, border, model->carried + k)) return;
  }
  if (model_take(model, p, n)) return;
  if (n >= CARRY) {
    memcpy(model->carry, p + n - CARRY, CARRY);
    model->carried = CARRY;
  } else {
    size_t keep = model->carried + n > CARRY ? CARRY - n : model->carried;
    memmove(model->carry, model->carry + model->carried - keep, keep);
    memcpy(model->carry + keep, p, n);
    model->carried = keep + n;
  }
}

#endif
