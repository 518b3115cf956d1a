/* A compute of your own in pipetrain's pipeline, in C: each of three stages multiplies by one number, and together they learn
 * that the product of their numbers is 6. Builds against an installed pipetrain with cc c_pipeline.c $(pkg-config --cflags
 * --libs pipetrain) */
#include <pipetrain/pipetrain.h>
#include <stdio.h>
#include <stdlib.h>

enum { STAGES = 3, MICROBATCHES = 8, MOST_SLOTS = 64 };

typedef struct stage {
  double weight, gradient, loss;
  double errors[MICROBATCHES]; /* of the last stage, from F to B */
  double learning_rate, scale;
  double memory[MOST_SLOTS];
  size_t used;
} stage;

static double number(const pipetrain_slot* slot) { return *(const double*)slot->user; }

/* A number for each slot. A program with tensors sets slots[i]->tensor, a DLPack tensor, instead. */
static int make_slots(void* user, int32_t kind, int32_t chunk, pipetrain_slot* const* slots, size_t count) {
  stage* self = user;
  (void)kind, (void)chunk;
  if (self->used + count > MOST_SLOTS) {
    pipetrain_fail("the queues need more slots than this stage has memory for");
    return 1;
  }
  for (size_t i = 0; i < count; ++i) slots[i]->user = &self->memory[self->used++];
  return 0;
}

static int begin_step(void* user, const pipetrain_step* step) {
  stage* self = user;
  self->gradient = self->loss = 0;
  self->learning_rate = step->learning_rate;
  return 0;
}

static void forward(stage* self, const pipetrain_launch* launch) {
  const double y = self->weight * number(launch->activation);
  if (launch->output != NULL) {
    *(double*)launch->output->user = y;
  } else { /* the last stage: its error waits for the backward */
    const double error = y - number(launch->target);
    self->errors[launch->action.microbatch] = error;
    self->loss += error * error / MICROBATCHES;
  }
}

static void backward(stage* self, const pipetrain_launch* launch) {
  const double dy =
      launch->gradient != NULL ? number(launch->gradient) : 2 * self->errors[launch->action.microbatch] / MICROBATCHES;
  self->gradient += dy * number(launch->activation);
  if (launch->output != NULL) *(double*)launch->output->user = dy * self->weight;
}

/* Does one action, on a thread of this stage's own. */
static int run(void* user, const pipetrain_launch* launch, double* results, size_t capacity, size_t* count) {
  stage* self = user;
  switch (launch->action.kind) {
    case PIPETRAIN_F:
      forward(self, launch);
      return 0;
    case PIPETRAIN_B:
      backward(self, launch);
      return 0;
    case PIPETRAIN_N:
      if (capacity > 0) results[(*count)++] = self->loss;
      return 0;
    case PIPETRAIN_O:
      self->weight -= self->learning_rate * self->scale * self->gradient;
      return 0;
    default:
      pipetrain_fail("this compute knows F, B, N and O only");
      return 1;
  }
}

static int verdict(void* user, const pipetrain_verdict* given) {
  stage* self = user;
  self->scale = given->grad_scale;
  return 0;
}

static int make_compute(void* user, const pipetrain_stage_request* request, pipetrain_compute* compute) {
  stage* stages = user;
  compute->user = &stages[request->stage];
  compute->make_slots = make_slots;
  compute->begin_step = begin_step;
  compute->run = run;
  compute->verdict = verdict;
  return 0;
}

static int fill(void* user, int32_t replica, int32_t kind, const pipetrain_step* step, int32_t microbatch,
                pipetrain_slot* slot) {
  const double x = 1 + 0.1 * microbatch;
  (void)user, (void)replica, (void)step;
  *(double*)slot->user = kind == PIPETRAIN_ACTIVATION ? x : 6 * x;
  return 0;
}

/* Keeps the loss, which the last stage has, and applies every step. */
static int decide(void* user, const double* const* results, const size_t* counts, size_t stages, pipetrain_verdict* given) {
  (void)counts, (void)given;
  *(double*)user = results[stages - 1][0];
  return 0;
}

static void check(pipetrain_status status) {
  if (status == PIPETRAIN_OK) return;
  fprintf(stderr, "%s\n", pipetrain_last_error());
  for (size_t i = 0; pipetrain_last_waiting(i) != NULL; ++i) fprintf(stderr, "  %s\n", pipetrain_last_waiting(i));
  exit(1);
}

int main(void) {
  stage stages[STAGES] = {{.weight = 1}, {.weight = 1}, {.weight = 1}};
  pipetrain_plan* plan;
  pipetrain_pipeline* pipeline;
  pipetrain_timeline* timeline;
  char picture[4096];
  size_t length;

  const pipetrain_plan_request wanted = {
      .struct_size = sizeof wanted, .schedule = "1f1b", .stages = STAGES, .microbatches = MICROBATCHES};
  check(pipetrain_plan_build(&wanted, &plan));
  check(pipetrain_simulate(plan, NULL, NULL, &timeline)); /* F = I = W = 1 */
  check(pipetrain_timeline_draw(timeline, PIPETRAIN_TERMINAL, 80, picture, sizeof picture, &length));
  fputs(picture, stdout);
  check(pipetrain_timeline_free(timeline));

  const pipetrain_pipeline_request request = {
      .struct_size = sizeof request, .plan = plan, .user = stages, .make_compute = make_compute, .fill = fill};
  check(pipetrain_pipeline_create(&request, &pipeline));
  for (int i = 1; i <= 10; ++i) {
    double loss = 0;
    const pipetrain_step step = {.struct_size = sizeof step, .step = i, .learning_rate = 0.01};
    check(pipetrain_pipeline_step(pipeline, &step, decide, &loss));
    printf("step %d  loss %.6f\n", i, loss);
  }
  double loss = 0;
  const pipetrain_step evaluation = {.struct_size = sizeof evaluation, .step = 1, .evaluation = 1}; /* F and N alone */
  check(pipetrain_pipeline_step(pipeline, &evaluation, decide, &loss));
  printf("evaluation  loss %.6f\n", loss);
  check(pipetrain_pipeline_free(pipeline));
  check(pipetrain_plan_free(plan));
  return 0;
}
