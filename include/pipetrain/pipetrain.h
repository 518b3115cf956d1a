/* The scheduling engine for programs in C, and for languages that call C.
 *
 * Plans say in which order the stages of a pipeline act; simulations tell how long that takes; pipelines run your own compute
 * in that order, with queues, credits, failures and traces. docs/embedding.md has a whole program.
 *
 * Errors. Functions return a pipetrain_status. What went wrong is then one line in pipetrain_last_error(), of the calling
 * thread. No C++ exception leaves the library. Outputs are written only where PIPETRAIN_OK is returned.
 *
 * Structs. The first member of every struct is its size: set struct_size = sizeof(the struct) before you pass one, also where
 * the library fills it. Members are only ever added at the end, never into padding, so that each version of a struct has a size
 * of its own, and 0 always means the default: programs built with an older header go on working with a newer library. A newer
 * header with an older library is refused.
 *
 * Handles (pipetrain_plan and the like) are not addresses: one that was freed, or that is of another kind, is refused and never
 * touched. A null handle is refused, but may be freed.
 *
 * Threads. Every function may be called from any thread at any time; what a function says of its own comes on top. Calls on
 * different handles do not wait for each other. */
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
  PIPETRAIN_ABORTED = 4,       /* a step was ended: by pipetrain_pipeline_abort(), or because nothing went on */
  PIPETRAIN_PEER_LOST = 5,     /* a part of the run went away */
  PIPETRAIN_UNAVAILABLE = 6,   /* this build or this machine lacks what was asked for */
  PIPETRAIN_INTERNAL = 7,      /* a bug of pipetrain, or an exception of a callback */
  PIPETRAIN_MISUSE = 8         /* a handle that is none, a call out of order or from inside a callback */
};

/* "0.1.0". */
const char* pipetrain_version(void);

/* The line of the latest call of this thread that failed; "" before the first. Valid until the next one fails. */
const char* pipetrain_last_error(void);
/* Where that was a step: what stage `index` waited for when the failure was heard; null beyond the last line. Valid as above.
 */
const char* pipetrain_last_waiting(size_t index);

/* --- Plans --- */

typedef struct pipetrain_plan pipetrain_plan;

/* Actions. Text: F3, B3, and with chunks 1F3. */
enum {
  PIPETRAIN_F = 0, /* forward */
  PIPETRAIN_B = 1, /* backward: I and W in one */
  PIPETRAIN_I = 2, /* the gradient of the input, which the stage before waits for */
  PIPETRAIN_W = 3, /* the gradients of the weights */
  PIPETRAIN_R = 4, /* end of step: sum a chunk's gradients over the replicas */
  PIPETRAIN_S = 5, /* sum a chunk's replicated gradients over the ranks of a stage */
  PIPETRAIN_T = 6, /* sum the gradients of weights that the model's two ends share */
  PIPETRAIN_N = 7, /* this stage's part of the gradient norm: its results go to the verdict */
  PIPETRAIN_O = 8, /* the optimizer, after the verdict; left out where the step is skipped */
  PIPETRAIN_X = 9  /* a custom action of the plan: see pipetrain_plan_custom() */
};

typedef struct pipetrain_action {
  size_t struct_size;
  int32_t kind;       /* PIPETRAIN_F ... */
  int32_t chunk;      /* of the stage, in model order; 0 for N, O and X */
  int32_t microbatch; /* -1 for R, S, T, N and O; of X its number in the plan */
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
/* From a plan's text, `length` bytes of it; `name` is what errors call it, null: "plan". The plan is checked. */
pipetrain_status pipetrain_plan_parse(const char* text, size_t length, int32_t format, const char* name, pipetrain_plan** plan);
/* From a file: PyTorch's CSV where its name ends in .csv, else our text. */
pipetrain_status pipetrain_plan_read(const char* path, pipetrain_plan** plan);
/* A new plan with R, S and T where asked for, and N and O, appended to a plan without them. */
pipetrain_status pipetrain_plan_with_end(const pipetrain_plan* compute, int32_t reduce, int32_t sum_replicated,
                                         int32_t sum_tied, pipetrain_plan** plan);
pipetrain_status pipetrain_plan_free(pipetrain_plan* plan);

typedef struct pipetrain_plan_shape {
  size_t struct_size;
  int32_t stages, chunks, microbatches;
  int32_t has_end; /* N and O are there */
} pipetrain_plan_shape;

pipetrain_status pipetrain_plan_describe(const pipetrain_plan* plan, pipetrain_plan_shape* shape);
/* How many actions stage `stage` has, and one of them. */
pipetrain_status pipetrain_plan_length(const pipetrain_plan* plan, int32_t stage, size_t* actions);
pipetrain_status pipetrain_plan_action(const pipetrain_plan* plan, int32_t stage, size_t index, pipetrain_action* action);

/* What a plan orders although the library does not know it: it goes to the compute of its stage in its turn. The plan's text
 * says what it is, after which actions of which stages it comes, and what resources it uses, of which each has one user at a
 * time: custom X0: send-stats after 0:B1 2:F0 uses nic Such a plan runs in the planned order only. */
typedef struct pipetrain_custom {
  size_t struct_size;
  const char* name; /* the plan's */
  int32_t stage;    /* in whose list it stands, once */
} pipetrain_custom;

/* The custom action of this number; PIPETRAIN_INPUT beyond the last. */
pipetrain_status pipetrain_plan_custom(const pipetrain_plan* plan, size_t number, pipetrain_custom* custom);

/* Which of the stages x chunks pieces of the model, counted from its input, this chunk of this stage is. */
pipetrain_status pipetrain_plan_virtual_stage(const pipetrain_plan* plan, int32_t stage, int32_t chunk, int32_t* virtual_stage);

/* Texts go into memory of yours: `*length` becomes the bytes of the text without the final 0. With a capacity of 0 nothing is
 * written; a capacity that is too small is refused, and `*length` is set all the same. */
pipetrain_status pipetrain_plan_print(const pipetrain_plan* plan, int32_t format, char* text, size_t capacity, size_t* length);

/* How a stage chooses its next action: the next of its list, or by the schedule's rule among all that could run now. */
enum { PIPETRAIN_PLANNED = 0, PIPETRAIN_READY = 1 };

/* How long your compute reads what it received: after this action of the microbatch the slot goes back to its producer. */
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

/* What a chunk must reserve to run a plan. */
typedef struct pipetrain_chunk_needs {
  size_t struct_size;
  int32_t activation_slots, gradient_slots, target_slots; /* of the queues that it receives from */
  int32_t peak_activations;                               /* most microbatches between F and the end of B or W */
  int32_t peak_pending_weight_grads;                      /* most microbatches between I and the end of W */
} pipetrain_chunk_needs;

/* Proves that the plan is whole, in order and free of deadlock; PIPETRAIN_INPUT with the stage and the action where it is not.
 * `rules` may be null. */
pipetrain_status pipetrain_plan_validate(const pipetrain_plan* plan, const pipetrain_rules* rules);
/* The same, and what one chunk needs. */
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
  pipetrain_rules rules; /* with its own struct_size; all 0 is taken as the defaults too */
  int32_t wide_queues;   /* queues have room for the whole step, as schedules are compared on paper; not for PIPETRAIN_READY */
  double jitter;         /* each time is multiplied by exp(jitter * z), z normal by (seed, stage, action) */
  uint64_t seed;
} pipetrain_simulation;

/* One step in virtual time. `costs` and `simulation` may be null. The same input gives the same timeline to the bit. */
pipetrain_status pipetrain_simulate(const pipetrain_plan* plan, const pipetrain_costs* costs,
                                    const pipetrain_simulation* simulation, pipetrain_timeline** timeline);
pipetrain_status pipetrain_timeline_free(pipetrain_timeline* timeline);

typedef struct pipetrain_summary {
  size_t struct_size;
  int32_t rows;           /* stages; in a pipeline of several replicas each of theirs, replica by replica */
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
  int32_t waited_for; /* what its start waited for last */
  double start, end;
} pipetrain_span;

pipetrain_status pipetrain_timeline_summary(const pipetrain_timeline* timeline, pipetrain_summary* summary);
pipetrain_status pipetrain_timeline_stage(const pipetrain_timeline* timeline, int32_t row, pipetrain_stage_summary* summary);
pipetrain_status pipetrain_timeline_length(const pipetrain_timeline* timeline, int32_t row, size_t* spans);
pipetrain_status pipetrain_timeline_span(const pipetrain_timeline* timeline, int32_t row, size_t index, pipetrain_span* span);

enum { PIPETRAIN_TERMINAL = 0, PIPETRAIN_SVG = 1, PIPETRAIN_HTML = 2, PIPETRAIN_CHROME_TRACE = 3, PIPETRAIN_CSV = 4 };

/* width: columns of PIPETRAIN_TERMINAL (0: 80), pixels of PIPETRAIN_SVG (0: 1200); unused by the others. The rest is as for
 * pipetrain_plan_print(). */
pipetrain_status pipetrain_timeline_draw(const pipetrain_timeline* timeline, int32_t format, int32_t width, char* text,
                                         size_t capacity, size_t* length);

/* --- Pipelines: your compute, in the order of a plan --- */

typedef struct pipetrain_pipeline pipetrain_pipeline;
typedef struct pipetrain_stage pipetrain_stage;
struct DLManagedTensor; /* of dlpack.h */

enum { PIPETRAIN_ACTIVATION = 0, PIPETRAIN_GRADIENT = 1, PIPETRAIN_TARGET = 2 };

/* A place in a queue: memory of the stage that receives. Its producer writes it, and hands it over with the end of its action;
 * the consumer reads it until its life is over. One of the two has it at a time. */
typedef struct pipetrain_slot {
  size_t struct_size;
  struct DLManagedTensor* tensor; /* null: no memory of the library's concern */
  void* user;                     /* yours */
  void *ready, *free;             /* events of your device, or null: the producer records `ready` after writing and waits for
                                     `free` before; the consumer the other way round. The library only carries them. */
  int32_t ndim;                   /* what the slot holds now, set by who fills it; at first the tensor's */
  int64_t shape[8];
} pipetrain_slot;

typedef struct pipetrain_step {
  size_t struct_size;
  int64_t step;         /* counts from 1 */
  int32_t microbatches; /* the plan's; 0: just that */
  double tokens;        /* what the loss is a mean over: for your compute */
  double learning_rate; /* likewise */
  /* 0: the plan as it stands. 1: an evaluation, which changes no weights: each stage runs the F of its list, without custom
   * actions, and N; no backward comes, and the optimizer is skipped whatever `decide` says. Callbacks that get this struct see
   * which one it is. */
  int32_t evaluation;
} pipetrain_step;

typedef struct pipetrain_launch {
  size_t struct_size;
  pipetrain_action action;
  int32_t virtual_stage;                                /* of the chunk */
  const pipetrain_slot *activation, *gradient, *target; /* null where the action has none */
  pipetrain_slot* output;                               /* to fill; null where the action sends nothing */
  const char* custom;                                   /* the name of a custom action; else null */
} pipetrain_launch;

typedef struct pipetrain_verdict {
  size_t struct_size;
  int32_t apply;     /* whether O runs */
  double grad_scale; /* from clipping */
} pipetrain_verdict;

/* When an action ran, in seconds of one clock of yours for all stages. */
typedef struct pipetrain_times {
  size_t struct_size;
  double start, end;
} pipetrain_times;

/* What one stage computes. Callbacks return 0, or anything else for a failure that ends the run; they say why with
 * pipetrain_fail(). One at a time per stage, but for `run`, on threads of the library. None may call functions that wait
 * (pipetrain_pipeline_step, _waiting, _free): that is refused. Exactly one of `launch` and `run` is set. */
typedef struct pipetrain_compute {
  size_t struct_size;
  void* user; /* first argument of every callback */
  /* Memory for the `count` slots of the queue that receives this kind for this chunk: set their tensor, user and events. The
   * library calls the tensors' deleters at the pipeline's end. Null: slots without memory. */
  int (*make_slots)(void* user, int32_t kind, int32_t chunk, pipetrain_slot* const* slots, size_t count);
  int (*begin_step)(void* user, const pipetrain_step* step); /* may be null */
  /* Begins an action and returns at once. Answer every launch with pipetrain_enqueued() and then pipetrain_completed(), also
   * after a failure; both may be called inside. The struct is valid during the call, its slots until the answer. */
  int (*launch)(void* user, const pipetrain_launch* launch);
  /* Does the action and returns when it is done: on a thread of this stage's own, which is there for that; or, with
   * any_thread, on one of those that are there for all such stages. N may set up to `capacity` results. Enqueued and completed
   * are the library's business then. */
  int (*run)(void* user, const pipetrain_launch* launch, double* results, size_t capacity, size_t* count);
  int (*verdict)(void* user, const pipetrain_verdict* verdict); /* before O; may be null */
  void (*abort)(void* user, const char* why); /* make what was launched end soon; may be null. Also while `run` runs. */
  void (*destroy)(void* user);                /* the pipeline is gone; may be null */
  /* Of `run`: 0 for a thread of this stage's own, the same for all its actions. 1 for whichever is free of as many threads as
   * there are such stages: actions run at once as they would otherwise, those of a stage one at a time, and few of them have
   * to wake a thread. For code that keeps nothing by thread (a current device, thread-local variables). */
  int32_t any_thread;
} pipetrain_compute;

typedef struct pipetrain_stage_request {
  size_t struct_size;
  int32_t replica, stage, chunks;
  const pipetrain_chunk_needs* needs; /* [chunks] */
  pipetrain_stage* handle;            /* for the answers; it ends with the pipeline */
} pipetrain_stage_request;

typedef struct pipetrain_pipeline_request {
  size_t struct_size;
  const pipetrain_plan* plan; /* N and O are appended where it has none; it may be freed afterwards */
  pipetrain_rules rules;      /* all 0 is taken as the defaults */
  int32_t replicas;           /* 0: 1. Each runs the plan; R is where their computes meet. */
  double stall_seconds;       /* a step in which no action completes for so long fails and names who hangs; 0: 600 */
  double grace_seconds;       /* for stages to stop after a failure; 0: 10 */
  void* user;
  /* Fills `compute` for one stage of one replica. Called before pipetrain_pipeline_create() returns. */
  int (*make_compute)(void* user, const pipetrain_stage_request* stage, pipetrain_compute* compute);
  /* Puts a microbatch's input (PIPETRAIN_ACTIVATION) or target into a slot of the model's first or last piece; called by one
   * thread of the library per replica. Null: slots are handed on as they are. */
  int (*fill)(void* user, int32_t replica, int32_t kind, const pipetrain_step* step, int32_t microbatch, pipetrain_slot* slot);
} pipetrain_pipeline_request;

/* Makes all computes and their slots. */
pipetrain_status pipetrain_pipeline_create(const pipetrain_pipeline_request* request, pipetrain_pipeline** pipeline);

/* Given what every stage's N resulted in, replica by replica, decides for all. `verdict` comes in as apply, scale 1. */
typedef int (*pipetrain_decide)(void* user, const double* const* results, const size_t* counts, size_t stages,
                                pipetrain_verdict* verdict);

/* Runs a step, of training or evaluation, to its end, in one thread at a time. Null `decide`: apply. After a failure every
 * further step fails with the same line. */
pipetrain_status pipetrain_pipeline_step(pipetrain_pipeline* pipeline, const pipetrain_step* step, pipetrain_decide decide,
                                         void* user);
/* Ends the running step, or the next one, with this line. Returns at once. */
pipetrain_status pipetrain_pipeline_abort(pipetrain_pipeline* pipeline, const char* why);
/* What each stage waits for now, a line each. As for pipetrain_plan_print(); waits at most two seconds, and gives no line where
 * the stages do not answer. */
pipetrain_status pipetrain_pipeline_waiting(pipetrain_pipeline* pipeline, char* text, size_t capacity, size_t* length);
/* When the actions of the latest step or evaluation ran, in seconds from its first start. PIPETRAIN_MISUSE before the first one
 * has ended. */
pipetrain_status pipetrain_pipeline_timeline(pipetrain_pipeline* pipeline, pipetrain_timeline** timeline);
/* In a process that was forked from the one that made it, which has none of its threads, everything but this is refused, and
 * this lets go of nothing. Otherwise ends it. Refused, and nothing changed, during a step and as long as a callback has not
 * returned, which it names. */
pipetrain_status pipetrain_pipeline_free(pipetrain_pipeline* pipeline);

/* --- A compute's answers, from any thread --- */

/* The output's memory is written, or will be once its event `ready` is reached; the same for `free` of the inputs. */
pipetrain_status pipetrain_enqueued(pipetrain_stage* stage, const pipetrain_action* action);
/* After pipetrain_enqueued(). `times` may be null. Only N may have results. */
pipetrain_status pipetrain_completed(pipetrain_stage* stage, const pipetrain_action* action, const pipetrain_times* times,
                                     const double* results, size_t count);
/* Ends the run with this line. What was launched must still be answered. */
pipetrain_status pipetrain_failed(pipetrain_stage* stage, const char* why);
/* Inside a callback that is about to return other than 0: why. */
pipetrain_status pipetrain_fail(const char* why);

#ifdef __cplusplus
}
#endif

#endif
