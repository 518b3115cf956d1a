/* The scheduling engine for programs in C, and for languages that call C.
 *
 * Plans give the order in which the stages of a pipeline act; simulations compute how long that takes; pipelines run your own
 * compute in that order, with queues, credits, failures and traces. docs/embedding.md has a whole program.
 *
 * Errors. Functions return a pipetrain_status. After a failure, pipetrain_last_error() returns one line that describes it, for
 * the calling thread. No C++ exception leaves the library. Outputs are written only where PIPETRAIN_OK is returned.
 *
 * Structs. The first member of every struct is its size: set struct_size = sizeof(the struct) before you pass one, even where
 * the library fills it. Members are only ever added at the end, never into padding, so that each version of a struct has a size
 * of its own, and 0 always means the default: programs built with an older header go on working with a newer library. A newer
 * header with an older library is refused.
 *
 * Handles (pipetrain_plan and the like) are not addresses: one that was freed, or that is of another kind, is refused and never
 * followed. A null handle is refused, but may be freed.
 *
 * Threads. Every function may be called from any thread at any time, unless its comment says otherwise. Calls on different
 * handles do not wait for each other. */
#ifndef PIPETRAIN_PIPETRAIN_H
#define PIPETRAIN_PIPETRAIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Errors --- */

typedef int32_t pipetrain_status;
enum {
  PIPETRAIN_OK = 0,
  PIPETRAIN_INPUT = 1,         /* an argument, a plan or a file is wrong */
  PIPETRAIN_OUT_OF_MEMORY = 2, /* of the host */
  PIPETRAIN_NUMERIC = 3,       /* a loss or a norm is not finite */
  PIPETRAIN_ABORTED = 4,       /* a step was ended: by pipetrain_pipeline_abort(), or because it stalled */
  PIPETRAIN_PEER_LOST = 5,     /* a part of the run went away */
  PIPETRAIN_UNAVAILABLE = 6,   /* this build or this machine lacks what was asked for */
  PIPETRAIN_INTERNAL = 7,      /* a bug of pipetrain, or an exception of a callback */
  PIPETRAIN_MISUSE = 8         /* an invalid handle, a call out of order or from inside a callback */
};

/* "0.1.0". */
const char* pipetrain_version(void);

/* The line of the latest call of this thread that failed; "" before the first. Valid until the next one fails. */
const char* pipetrain_last_error(void);
/* After a failed step: the line on stage `index`, which says what it waited for when it received the failure; null beyond the
 * last line. Valid as above. */
const char* pipetrain_last_waiting(size_t index);

/* --- Plans --- */

typedef struct pipetrain_plan pipetrain_plan;

/* Actions. Text: F3, B3, and with chunks 1F3. */
enum {
  PIPETRAIN_F = 0, /* forward */
  PIPETRAIN_B = 1, /* backward: I and W in one */
  PIPETRAIN_I = 2, /* the gradient of the input, for which the previous stage waits */
  PIPETRAIN_W = 3, /* the gradients of the weights */
  PIPETRAIN_R = 4, /* end of step: sum a chunk's gradients over the replicas */
  PIPETRAIN_S = 5, /* sum a chunk's replicated gradients over the ranks of a stage */
  PIPETRAIN_T = 6, /* sum the gradients of weights that the model's two ends share */
  PIPETRAIN_N = 7, /* this stage's part of the gradient norm; the verdict gets its results */
  PIPETRAIN_O = 8, /* the optimizer, after the verdict; left out where the step is skipped */
  PIPETRAIN_X = 9  /* a custom action of the plan: see pipetrain_plan_custom() */
};

typedef struct pipetrain_action {
  size_t struct_size;
  int32_t kind;       /* PIPETRAIN_F ... */
  int32_t chunk;      /* of the stage, in model order; 0 for N, O and X */
  int32_t microbatch; /* -1 for R, S, T, N and O; for X its number in the plan */
} pipetrain_action;

typedef struct pipetrain_schedule {
  size_t struct_size;
  const char* name; /* static */
  int32_t default_chunks;
  int32_t chunks_can_vary;
  int32_t has_ready_rule; /* PIPETRAIN_READY is possible */
} pipetrain_schedule;

/* The schedule of this index; PIPETRAIN_INPUT beyond the last. */
pipetrain_status pipetrain_schedule_at(size_t index, pipetrain_schedule* schedule);

typedef struct pipetrain_plan_request {
  size_t struct_size;
  const char* schedule; /* a name; null: "1f1b" */
  int32_t stages;
  int32_t chunks; /* per stage; 0: the schedule's own */
  int32_t microbatches;
} pipetrain_plan_request;

enum { PIPETRAIN_TEXT = 0, PIPETRAIN_PYTORCH_CSV = 1 };

/* The compute of one step. */
pipetrain_status pipetrain_plan_build(const pipetrain_plan_request* request, pipetrain_plan** plan);
/* Reads a plan's text of `length` bytes and checks it; errors use `name`, null: "plan". */
pipetrain_status pipetrain_plan_parse(const char* text, size_t length, int32_t format, const char* name, pipetrain_plan** plan);
/* Reads a file: PyTorch's CSV where its name ends in .csv, else our text. */
pipetrain_status pipetrain_plan_read(const char* path, pipetrain_plan** plan);
/* Makes a new plan by appending the requested R, S and T, then N and O, to a plan without them. */
pipetrain_status pipetrain_plan_with_end(const pipetrain_plan* compute, int32_t reduce, int32_t sum_replicated,
                                         int32_t sum_tied, pipetrain_plan** plan);
pipetrain_status pipetrain_plan_free(pipetrain_plan* plan);

typedef struct pipetrain_plan_shape {
  size_t struct_size;
  int32_t stages, chunks, microbatches;
  int32_t has_end; /* the plan has N and O */
} pipetrain_plan_shape;

pipetrain_status pipetrain_plan_describe(const pipetrain_plan* plan, pipetrain_plan_shape* shape);
/* Return the number of actions of stage `stage`, and one of them. */
pipetrain_status pipetrain_plan_length(const pipetrain_plan* plan, int32_t stage, size_t* actions);
pipetrain_status pipetrain_plan_action(const pipetrain_plan* plan, int32_t stage, size_t index, pipetrain_action* action);

/* An action that a plan orders but the library does not know: the compute of its stage gets it in the list's order. The plan's
 * text gives its name, the actions of other stages that it comes after, and the resources that it uses, each of which has one
 * user at a time: custom X0: send-stats after 0:B1 2:F0 uses nic. Such a plan runs in the planned order only. */
typedef struct pipetrain_custom {
  size_t struct_size;
  const char* name; /* owned by the plan */
  int32_t stage;    /* the one whose list contains it, once */
} pipetrain_custom;

/* The custom action of this number; PIPETRAIN_INPUT beyond the last. */
pipetrain_status pipetrain_plan_custom(const pipetrain_plan* plan, size_t number, pipetrain_custom* custom);

/* The virtual stage of this chunk of this stage: its number among the stages x chunks parts of the model, from its input. */
pipetrain_status pipetrain_plan_virtual_stage(const pipetrain_plan* plan, int32_t stage, int32_t chunk, int32_t* virtual_stage);

/* Texts are written into your memory: `*length` becomes the bytes of the text without the final 0. With a capacity of 0 nothing
 * is written; a capacity that is too small is refused, but `*length` is still set. */
pipetrain_status pipetrain_plan_print(const pipetrain_plan* plan, int32_t format, char* text, size_t capacity, size_t* length);

/* A stage runs the next action of its list, or one that the schedule's rule chooses among all that could run now. */
enum { PIPETRAIN_PLANNED = 0, PIPETRAIN_READY = 1 };

/* The last action of a microbatch that reads a received input: after it, the slot returns to its producer. */
enum {
  PIPETRAIN_UNTIL_DEFAULT = 0, /* activations and targets: until I; gradients: until W */
  PIPETRAIN_UNTIL_F = 1,       /* not for gradients */
  PIPETRAIN_UNTIL_I = 2,       /* I or B */
  PIPETRAIN_UNTIL_W = 3        /* W or B */
};

typedef struct pipetrain_rules {
  size_t struct_size;
  int32_t order;           /* PIPETRAIN_PLANNED */
  int32_t activation_life; /* PIPETRAIN_UNTIL_DEFAULT */
  int32_t gradient_life;   /* PIPETRAIN_UNTIL_DEFAULT */
  int32_t run_ahead;       /* actions launched and not completed, per stage; 0: 2 */
} pipetrain_rules;

/* The resources that a chunk must reserve to run a plan. */
typedef struct pipetrain_chunk_needs {
  size_t struct_size;
  int32_t activation_slots, gradient_slots, target_slots; /* of the queues from which it receives */
  int32_t peak_activations;                               /* the most microbatches between F and the end of B or W */
  int32_t peak_pending_weight_grads;                      /* the most microbatches between I and the end of W */
} pipetrain_chunk_needs;

/* Proves that the plan is complete, ordered and free of deadlock; PIPETRAIN_INPUT with the stage and the action where it is
 * not. `rules` may be null. */
pipetrain_status pipetrain_plan_validate(const pipetrain_plan* plan, const pipetrain_rules* rules);
/* The same, and returns the needs of one chunk. */
pipetrain_status pipetrain_plan_needs(const pipetrain_plan* plan, const pipetrain_rules* rules, int32_t stage, int32_t chunk,
                                      pipetrain_chunk_needs* needs);

/* --- Simulation --- */

typedef struct pipetrain_timeline pipetrain_timeline;

/* Times in any unit. Arrays have `stages` values, of a whole stage and one microbatch, which a stage's chunks share evenly; 1
 * value is for all stages. Null arrays: 1 for F, I and W, else 0. */
typedef struct pipetrain_costs {
  size_t struct_size;
  size_t stages;                                    /* 0: all arrays of times are null */
  const double *forward, *input_grad, *weight_grad; /* each more than 0 */
  const double *reduce, *sum_replicated, *sum_tied, *norm, *optimizer;
  double verdict; /* from the last norm to every optimizer */
  /* Edge e is between stages e and e + 1; one more, where chunks go round, is between the last stage and the first. A message
   * arrives latency + bytes / bytes_per_time after its producer ended. 1 value is for all edges; 0: messages take no time. */
  size_t edges;
  const double *latency, *bytes, *bytes_per_time; /* null: 0, 0, infinite */
  size_t customs;                                 /* 0, or as many as the plan has custom actions */
  const double* custom;                           /* of each, by number; null: 0 */
} pipetrain_costs;

typedef struct pipetrain_simulation {
  size_t struct_size;
  pipetrain_rules rules; /* with its own struct_size; all 0 also means the defaults */
  int32_t wide_queues;   /* queues have room for the whole step, as in published comparisons; not for PIPETRAIN_READY */
  double jitter;         /* each time is multiplied by exp(jitter * z), z normal by (seed, stage, action) */
  uint64_t seed;
} pipetrain_simulation;

/* Simulates one step in virtual time. `costs` and `simulation` may be null. Deterministic to the bit. */
pipetrain_status pipetrain_simulate(const pipetrain_plan* plan, const pipetrain_costs* costs,
                                    const pipetrain_simulation* simulation, pipetrain_timeline** timeline);
pipetrain_status pipetrain_timeline_free(pipetrain_timeline* timeline);

typedef struct pipetrain_summary {
  size_t struct_size;
  int32_t rows;           /* stages; with several replicas, those of each, replica by replica */
  double makespan;        /* first start to last end over all stages */
  double bubble_fraction; /* 1 - busy / (rows x makespan) */
  double span_bubble;     /* max over stages of span - busy */
} pipetrain_summary;

typedef struct pipetrain_stage_summary {
  size_t struct_size;
  double busy, span, idle;
  double idle_warm_up, idle_steady, idle_cool_down, idle_communication; /* the parts of idle */
  double peak_activations; /* most microbatches between F and B or W; each chunk counts 1 / chunks */
} pipetrain_stage_summary;

enum {
  PIPETRAIN_WAITED_NOTHING = 0,
  PIPETRAIN_WAITED_ACTIVATION = 1,
  PIPETRAIN_WAITED_GRADIENT = 2,
  PIPETRAIN_WAITED_SLOT = 3,   /* a free slot in the queue that takes its output */
  PIPETRAIN_WAITED_PARTNER = 4 /* another stage that takes part */
};

typedef struct pipetrain_span {
  size_t struct_size;
  pipetrain_action action;
  int32_t waited_for; /* the event that its start waited for last */
  double start, end;
} pipetrain_span;

pipetrain_status pipetrain_timeline_summary(const pipetrain_timeline* timeline, pipetrain_summary* summary);
pipetrain_status pipetrain_timeline_stage(const pipetrain_timeline* timeline, int32_t row, pipetrain_stage_summary* summary);
pipetrain_status pipetrain_timeline_length(const pipetrain_timeline* timeline, int32_t row, size_t* spans);
pipetrain_status pipetrain_timeline_span(const pipetrain_timeline* timeline, int32_t row, size_t index, pipetrain_span* span);

enum { PIPETRAIN_TERMINAL = 0, PIPETRAIN_SVG = 1, PIPETRAIN_HTML = 2, PIPETRAIN_CHROME_TRACE = 3, PIPETRAIN_CSV = 4 };

/* width: columns of PIPETRAIN_TERMINAL (0: 80), pixels of PIPETRAIN_SVG (0: 1200); unused by the others. For the rest see
 * pipetrain_plan_print(). */
pipetrain_status pipetrain_timeline_draw(const pipetrain_timeline* timeline, int32_t format, int32_t width, char* text,
                                         size_t capacity, size_t* length);

/* --- Pipelines: your compute, in the order of a plan --- */

typedef struct pipetrain_pipeline pipetrain_pipeline;
typedef struct pipetrain_stage pipetrain_stage;
struct DLManagedTensor; /* of dlpack.h */

enum { PIPETRAIN_ACTIVATION = 0, PIPETRAIN_GRADIENT = 1, PIPETRAIN_TARGET = 2 };

/* A slot of a queue: memory of the receiving stage. Its producer writes it, and hands it over at the end of its action; the
 * consumer reads it until its life is over. Only one of the two holds it at a time. */
typedef struct pipetrain_slot {
  size_t struct_size;
  struct DLManagedTensor* tensor; /* null: the library knows of no memory */
  void* user;                     /* yours */
  void *ready, *free;             /* events of your device, or null: the producer records `ready` after writing and waits for
                                     `free` before; the consumer the other way round. The library only carries them. */
  int32_t ndim;                   /* of the present contents, set by the producer; initially the tensor's */
  int64_t shape[8];
} pipetrain_slot;

typedef struct pipetrain_step {
  size_t struct_size;
  int64_t step;         /* counts from 1 */
  int32_t microbatches; /* the plan's, or 0 */
  double tokens;        /* the denominator of the mean loss, for your compute */
  double learning_rate; /* for your compute */
  /* 0: the whole plan. 1: an evaluation, which changes no weights: each stage runs the F of its list, without custom actions,
   * and N; there is no backward, and the optimizer is skipped whatever `decide` returns. Callbacks that get this struct can
   * tell the two apart. */
  int32_t evaluation;
} pipetrain_step;

typedef struct pipetrain_launch {
  size_t struct_size;
  pipetrain_action action;
  int32_t virtual_stage;                                /* of the chunk */
  const pipetrain_slot *activation, *gradient, *target; /* null where the action has none */
  pipetrain_slot* output;                               /* to be filled; null where the action sends nothing */
  const char* custom;                                   /* the name of a custom action; else null */
} pipetrain_launch;

typedef struct pipetrain_verdict {
  size_t struct_size;
  int32_t apply;     /* not 0: O runs */
  double grad_scale; /* from clipping */
} pipetrain_verdict;

/* The times at which an action ran, in seconds on a clock of yours that all stages share. */
typedef struct pipetrain_times {
  size_t struct_size;
  double start, end;
} pipetrain_times;

/* The callbacks of one stage. They return 0, or anything else for a failure that ends the run, with the reason given by
 * pipetrain_fail(). The library calls them on its threads, one at a time per stage except `run`. None may call functions that
 * wait (pipetrain_pipeline_step, _waiting, _free): that is refused. Exactly one of `launch` and `run` is set. */
typedef struct pipetrain_compute {
  size_t struct_size;
  void* user; /* first argument of every callback */
  /* Provides memory for the `count` slots of the queue that receives this kind for this chunk: sets their tensor, user and
   * events. The library calls the tensors' deleters at the pipeline's end. Null: slots without memory. */
  int (*make_slots)(void* user, int32_t kind, int32_t chunk, pipetrain_slot* const* slots, size_t count);
  int (*begin_step)(void* user, const pipetrain_step* step); /* may be null */
  /* Begins an action and returns at once. Answer every launch with pipetrain_enqueued() and then pipetrain_completed(), also
   * after a failure; both may be called inside. The struct is valid during the call, its slots until the answer. */
  int (*launch)(void* user, const pipetrain_launch* launch);
  /* Runs the action and returns when it is done: on a thread of this stage's own or, with any_thread, on one of the threads
   * that all such stages share. N may set up to `capacity` results. The library then reports enqueued and completed. */
  int (*run)(void* user, const pipetrain_launch* launch, double* results, size_t capacity, size_t* count);
  int (*verdict)(void* user, const pipetrain_verdict* verdict); /* before O; may be null */
  void (*abort)(void* user, const char* why); /* makes launched actions end soon; may be null. Also called during `run`. */
  void (*destroy)(void* user);                /* the pipeline is gone; may be null */
  /* The thread of `run`. 0: one of this stage's own, the same for all its actions. 1: any free one of a pool with as many
   * threads as there are such stages. Actions then run as early as with 0, those of a stage one at a time, but few of them
   * have to wake a thread. Use 1 for code that keeps no state per thread (a current device, thread-local variables). */
  int32_t any_thread;
} pipetrain_compute;

typedef struct pipetrain_stage_request {
  size_t struct_size;
  int32_t replica, stage, chunks;
  const pipetrain_chunk_needs* needs; /* [chunks] */
  pipetrain_stage* handle;            /* for the answers; valid until the pipeline ends */
} pipetrain_stage_request;

typedef struct pipetrain_pipeline_request {
  size_t struct_size;
  const pipetrain_plan* plan; /* N and O are appended where it has none; it may be freed afterwards */
  pipetrain_rules rules;      /* all 0 means the defaults */
  int32_t replicas;           /* 0: 1. Each runs the plan; their computes meet in R. */
  double stall_seconds;       /* a step in which no action completes for so long fails and names the stage that hangs; 0: 600 */
  double grace_seconds;       /* for stages to stop after a failure; 0: 10 */
  void* user;
  /* Fills `compute` for one stage of one replica. Called before pipetrain_pipeline_create() returns. */
  int (*make_compute)(void* user, const pipetrain_stage_request* stage, pipetrain_compute* compute);
  /* Puts a microbatch's input (PIPETRAIN_ACTIVATION) or target into a slot of the model's first or last part; one thread of the
   * library per replica calls it. Null: slots are passed on unchanged. */
  int (*fill)(void* user, int32_t replica, int32_t kind, const pipetrain_step* step, int32_t microbatch, pipetrain_slot* slot);
} pipetrain_pipeline_request;

/* Makes all computes and their slots. */
pipetrain_status pipetrain_pipeline_create(const pipetrain_pipeline_request* request, pipetrain_pipeline** pipeline);

/* Gets the results of every stage's N, replica by replica, and sets the verdict for all; it is initially apply, scale 1. */
typedef int (*pipetrain_decide)(void* user, const double* const* results, const size_t* counts, size_t stages,
                                pipetrain_verdict* verdict);

/* Runs a step, of training or evaluation, to its end, in one thread at a time. Null `decide`: apply. After a failure every
 * further step fails with the same line. */
pipetrain_status pipetrain_pipeline_step(pipetrain_pipeline* pipeline, const pipetrain_step* step, pipetrain_decide decide,
                                         void* user);
/* Ends the running step, or the next one, with this line. Returns at once. */
pipetrain_status pipetrain_pipeline_abort(pipetrain_pipeline* pipeline, const char* why);
/* Writes what each stage waits for now, one line per stage, as pipetrain_plan_print() does. Waits at most two seconds, and
 * writes no line where the stages do not answer. */
pipetrain_status pipetrain_pipeline_waiting(pipetrain_pipeline* pipeline, char* text, size_t capacity, size_t* length);
/* Returns the times at which the actions of the latest step or evaluation ran, in seconds from its first start.
 * PIPETRAIN_MISUSE before the first one has ended. */
pipetrain_status pipetrain_pipeline_timeline(pipetrain_pipeline* pipeline, pipetrain_timeline** timeline);
/* Ends the pipeline. Refused, without any change, during a step and while a callback has not returned, which the error names.
 * A process forked from the one that made the pipeline has none of its threads: there every other function is refused, and this
 * one frees nothing. */
pipetrain_status pipetrain_pipeline_free(pipetrain_pipeline* pipeline);

/* --- A compute's answers, from any thread --- */

/* The output has been written, or will be once its event `ready` is reached; likewise inputs are free once `free` is reached.
 */
pipetrain_status pipetrain_enqueued(pipetrain_stage* stage, const pipetrain_action* action);
/* After pipetrain_enqueued(). `times` may be null. Only N may have results. */
pipetrain_status pipetrain_completed(pipetrain_stage* stage, const pipetrain_action* action, const pipetrain_times* times,
                                     const double* results, size_t count);
/* Ends the run with this line. Launched actions must still be answered. */
pipetrain_status pipetrain_failed(pipetrain_stage* stage, const char* why);
/* Gives the reason inside a callback that is about to return another value than 0. */
pipetrain_status pipetrain_fail(const char* why);

#ifdef __cplusplus
}
#endif

#endif
