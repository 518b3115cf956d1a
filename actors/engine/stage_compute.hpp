// What a program brings to a pipeline. StageCompute is what a stage actor knows of its work: launch an action on these inputs,
// report when it is enqueued and completed. The transformer is one implementation, a no-op and a sleeping one serve tests and
// measurements. InputSource feeds tokens to the first virtual stage and targets to the last.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "actors/engine/trace.hpp"
#include "comm/slot.hpp"
#include "schedules/plan/action.hpp"
#include "schedules/plan/validate.hpp"
#include "schedules/protocol/stage_protocol.hpp"

namespace pipetrain {

class Device;

struct StepInfo {
  std::int64_t step = 1;  // counts from 1; of evaluations, from the first of a round
  int microbatches = 1;   // of one replica
  double tokens = 1;      // target tokens of the whole global batch: what the loss is a mean over
  double learning_rate = 0;
  double loss_scale = 1;  // what the backward's gradients are multiplied by
  schedules::StepKind kind = schedules::StepKind::training;
  bool evaluates() const { return kind == schedules::StepKind::evaluation; }
  // What the step is about, in words of the computes and sources, which all of them get: the engine only carries it, some MiB
  // at most. May be null.
  std::shared_ptr<const std::vector<std::byte>> content = {};
};

// What the compute of a stage has to say at its N action: losses, parts of the gradient norm, in an order that it and whoever
// decides agree on. The engine only carries it.
using StageResult = std::vector<double>;

// Apply or skip the optimizer step, the same for every stage.
struct Verdict {
  bool apply = true;
  double grad_scale = 1;  // from clipping and the loss scale
  // Weights step as V took for granted: the step is applied and nothing is clipped. Matters where steps begin early.
  bool confirms = false;
};

// Bytes on one device, by purpose, and what the rank keeps elsewhere.
struct MemoryUse {
  std::size_t parameters = 0, gradients = 0, optimizer = 0, activations = 0, queues = 0, workspace = 0;
  std::size_t host = 0, disk = 0;  // not of the device, nor of its total: memory of a GPU's host, and of a disk
  std::size_t snapshot = 0;        // likewise, of the host, whatever the device: see StageCompute::save_state()
  std::size_t total() const { return parameters + gradients + optimizer + activations + queues + workspace; }
  MemoryUse& operator+=(const MemoryUse& other) {
    for (std::size_t MemoryUse::*bytes :
         {&MemoryUse::parameters, &MemoryUse::gradients, &MemoryUse::optimizer, &MemoryUse::activations, &MemoryUse::queues,
          &MemoryUse::workspace, &MemoryUse::host, &MemoryUse::disk, &MemoryUse::snapshot})
      this->*bytes += other.*bytes;
    return *this;
  }
};

// A part of what a stage's compute keeps from step to step, by names that the compute knows.
struct StatePart {
  int rank = 0;               // of the compute's, from 0
  std::string state;          // "weights"
  std::size_t parameter = 0;  // of the rank, in its layout's order
  std::size_t begin = 0;      // the first value of the rank's slice
  std::size_t elements = 0;   // how many values
};

// How a compute answers its stage. Thread-safe; none of the calls blocks. For every launch: enqueued once, then completed once,
// also after a failure (so that a stage knows when nothing is running any more).
class StageEvents {
 public:
  virtual ~StageEvents() = default;
  // All ranks have enqueued the action: the events of its output and of the slots it releases are recorded.
  virtual void enqueued(const schedules::Action& action) = 0;
  // The action has run. The result comes with N; empty elsewhere.
  virtual void completed(const schedules::Action& action, const ActionTimes& times, StageResult result) = 0;
  // Both at once, of a compute that is done with the action when it answers. What this lets other stages do is given to their
  // computes before it returns, on the calling thread: which must hold no lock that launch() of any of them takes.
  virtual void ran(const schedules::Action& action, const ActionTimes& times, StageResult result) = 0;
  // As completed() without a result, after a delay on the actors' clock, which may be virtual.
  virtual void complete_at(const schedules::Action& action, const ActionTimes& times) = 0;
  virtual void failed(std::exception_ptr cause) = 0;
  // What read_state() of this number was to fill is filled.
  virtual void state_read(std::int64_t number) = 0;
  // save_state() of this number has written all that it will: a report in the compute's own words, or why there is none.
  virtual void state_saved(std::int64_t number, std::string report, std::exception_ptr failure) = 0;
  // The actors' clock. Only inside StageCompute's own methods.
  virtual std::chrono::steady_clock::time_point now() const = 0;
};

struct Launch {
  schedules::Action action;
  // Inputs; null where the action has none. The activation and the target of F are also there for later actions of the
  // microbatch as long as PipelineOptions::slot_life keeps them, the gradient of I likewise for W.
  SlotHandle activation, gradient, target;
  SlotHandle output;                                // to fill; null where the action sends nothing
  const schedules::CustomAction* custom = nullptr;  // what the plan says of a custom action; else null
  std::vector<SlotHandle> release;                  // inputs that nobody reads after this action: mark_free() on every lane
  bool early = false;                               // of the coming step: see StageCompute::begin_early()
  // The first of a braid (schedules/plan/braids.hpp), whose second is launched next, at once: a compute may run both together.
  bool begins_braid = false;
};

// All methods are called by the stage actor, one at a time; none may block.
class StageCompute {
 public:
  virtual ~StageCompute() = default;

  // Memory for the queue that receives this kind of input for this chunk. Called before the first step.
  virtual std::vector<SlotHandle> make_slots(schedules::InputKind kind, int chunk, int count) = 0;

  // Who fills the lanes of this compute's outputs, by lane: asked only where outputs may go to other processes.
  struct LaneSources {
    std::vector<Device*> devices;
    std::vector<int> ranks;  // of the mesh
  };
  virtual LaneSources lane_sources() const { return {}; }

  virtual void attach(std::shared_ptr<StageEvents> events) = 0;
  virtual void begin_step(const StepInfo& step) = 0;
  virtual void launch(const Launch& launch) = 0;
  // Before O is launched; a step that is skipped has no O.
  virtual void verdict(const Verdict& verdict) = 0;
  // Only where Pipeline::step() is told what comes next. N was launched, and forwards of the coming step may follow, V before
  // them where the verdict is not known; then O of the running step, if it has one; then begin_step(), of which only what
  // matters to backwards may differ from `coming`. After V, a verdict() that does not confirm takes back V and the forwards
  // that were launched so far: they are launched again, behind O, once they have completed.
  virtual void begin_early(const StepInfo& coming) { static_cast<void>(coming); }
  // Makes everything that was launched end soon; later launches only report enqueued and completed.
  virtual void abort(std::exception_ptr cause) noexcept = 0;

  // --- For reports and for saving; a compute that has nothing to report leaves them out ---
  // A step has ended: sets the times of its actions where they were measured meanwhile, and gives those of each rank's device.
  virtual std::vector<DeviceActions> add_times(StageTrace&) { return {}; }
  // Of each rank's device, in rank order.
  virtual std::vector<MemoryUse> memory() const { return {}; }
  // Between steps only: fills `out`, host memory that stays until state_read(number) answers; failed() answers where it cannot.
  virtual void read_state(std::int64_t number, const StatePart& part, float* out);
  // While no action that changes it is launched and incomplete: takes a snapshot of what the compute keeps and writes it to the
  // folder `where` while later steps run.
  // Always answered by state_saved(), also after abort(). Not again before that.
  virtual void save_state(std::int64_t number, const std::string& where);
  // How many values read_state() would fill. Thread-safe. Throws where there is no such part.
  virtual std::size_t state_elements(const StatePart& part) const;
};

// Where the microbatches of one replica come from. Called by the feeder actor, one call at a time; must not block for long.
class InputSource {
 public:
  virtual ~InputSource() = default;
  // Puts microbatch `microbatch` of the step into every lane of the slot: tokens for InputKind::activation, targets for
  // InputKind::target; sets the lanes' shapes and, where a lane has events, waits for `free` and records `ready`. What it
  // throws ends the run.
  virtual void fill(schedules::InputKind kind, const StepInfo& step, int microbatch, Slot& slot) = 0;
  // Whether fill() only hands over what is there, so that a stage's thread may call it between two actions. Never changes.
  virtual bool fills_at_once() const { return false; }
  // All of this step has been filled: time to get ready for the one that may come next. Must not throw.
  virtual void look_ahead(const StepInfo&) {}
};

// Slots without memory, for computes that move none.
std::vector<SlotHandle> make_empty_slots(int count);

}  // namespace pipetrain
