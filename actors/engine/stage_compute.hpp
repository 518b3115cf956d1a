// The interfaces that a program implements to use a pipeline. A stage actor gives StageCompute actions with their
// inputs to launch; the compute reports when they are enqueued and completed. The transformer is one implementation; a
// no-op and a sleeping one serve tests and measurements. InputSource fills the first virtual stage's queue with tokens
// and the last one's with targets.
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
  std::int64_t step = 1;  // counts from 1; for evaluations, from the first of a round
  int microbatches = 1;   // of one replica
  double tokens = 1;      // target tokens of the global batch: the denominator of the mean loss
  double learning_rate = 0;
  double loss_scale = 1;  // factor of the backward's gradients
  double sequences = 1;   // of the global batch, or its isolated documents: the denominator of losses of each sequence
  schedules::StepKind kind = schedules::StepKind::training;
  bool evaluates() const { return kind == schedules::StepKind::evaluation; }
  // Opaque data about the step for all computes and sources, at most a few MiB; the engine only carries it. May be null.
  std::shared_ptr<const std::vector<std::byte>> content = {};
  // Opaque data with which another process could lead the run from this step on, likewise carried. May be null.
  std::shared_ptr<const std::vector<std::byte>> progress = {};
  // The applied steps after which the optimizer's second moments stay as they are; 0: they change.
  std::int64_t frozen_after = 0;
  // Another factor of the backward's gradients, which stays in those that the optimizer sees.
  double gradient_factor = 1;
};

// The values that a stage's compute reports at its N action: losses and parts of the gradient norm, in an order that it
// and the Decide function agree on. The engine only carries them.
using StageResult = std::vector<double>;

// Apply or skip the optimizer step, the same for every stage.
struct Verdict {
  bool apply = true;
  double grad_scale = 1;  // combines clipping and the loss scale
  // The step is applied without clipping, as V assumed for its preview of the weights. Matters where steps begin early.
  bool confirms = false;
};

// Bytes on one device by purpose, and bytes that the rank keeps elsewhere.
struct MemoryUse {
  std::size_t parameters = 0, gradients = 0, optimizer = 0, activations = 0, queues = 0, workspace = 0;
  std::size_t host = 0, disk = 0;  // outside the device and its total: in host memory of a GPU, and on disk
  std::size_t snapshot = 0;        // in host memory for every kind of device, outside the total: see StageCompute::save_state()
  std::size_t copies = 0;          // likewise: of states, from which a run continues that has lost a process
  std::size_t total() const { return parameters + gradients + optimizer + activations + queues + workspace; }
  MemoryUse& operator+=(const MemoryUse& other) {
    for (std::size_t MemoryUse::*bytes :
         {&MemoryUse::parameters, &MemoryUse::gradients, &MemoryUse::optimizer, &MemoryUse::activations, &MemoryUse::queues,
          &MemoryUse::workspace, &MemoryUse::host, &MemoryUse::disk, &MemoryUse::snapshot, &MemoryUse::copies})
      this->*bytes += other.*bytes;
    return *this;
  }
};

// A part of the state that a stage's compute keeps between steps; the compute defines the names.
struct StatePart {
  int rank = 0;               // index among the compute's ranks
  std::string state;          // "weights"
  std::size_t parameter = 0;  // index in the rank's layout
  std::size_t begin = 0;      // the first value in the rank's slice
  std::size_t elements = 0;   // number of values
};

// A compute's answers to its stage. Thread-safe; no call blocks. For every launch the compute reports enqueued once,
// then completed once, also after a failure, so that a stage knows when nothing is running any more.
class StageEvents {
 public:
  virtual ~StageEvents() = default;
  // All ranks have enqueued the action: the events of its output and of the slots it releases are recorded.
  virtual void enqueued(const schedules::Action& action) = 0;
  // The action has run. `result` is for N; empty for other actions.
  virtual void completed(const schedules::Action& action, const ActionTimes& times, StageResult result) = 0;
  // Both of the above, from a compute that has finished the action when it answers. Before it returns, actions of other stages
  // that have become ready are launched on the calling thread, which must hold no lock that launch() of any compute takes.
  virtual void ran(const schedules::Action& action, const ActionTimes& times, StageResult result) = 0;
  // Reports completed() without a result, after a delay on the actors' clock, which may be virtual.
  virtual void complete_at(const schedules::Action& action, const ActionTimes& times) = 0;
  virtual void failed(std::exception_ptr cause) = 0;
  // read_state() of this number has filled its memory.
  virtual void state_read(std::int64_t number) = 0;
  // save_state() of this number has ended: a report in the compute's own words, or the failure.
  virtual void state_saved(std::int64_t number, std::string report, std::exception_ptr failure) = 0;
  // Returns the time on the actors' clock. Call it only inside StageCompute's own methods.
  virtual std::chrono::steady_clock::time_point now() const = 0;
};

struct Launch {
  schedules::Action action;
  // Inputs; null where the action has none. F's activation and target stay available to later actions of the microbatch
  // as PipelineOptions::slot_life says, and likewise I's gradient to W.
  SlotHandle activation, gradient, target;
  SlotHandle output;                                // null where the action sends nothing
  const schedules::CustomAction* custom = nullptr;  // the plan's entry of a custom action; else null
  std::vector<SlotHandle> release;                  // inputs without a later reader: call mark_free() on every lane
  bool early = false;                               // belongs to the coming step: see StageCompute::begin_early()
  // The first action of a braid (schedules/plan/braids.hpp); the second is launched next, so a compute may run both together.
  bool begins_braid = false;
};

// The stage actor calls all methods, one at a time; none may block.
class StageCompute {
 public:
  virtual ~StageCompute() = default;

  // Returns memory for the queue that receives this kind of input for this chunk. Called before the first step.
  virtual std::vector<SlotHandle> make_slots(schedules::InputKind kind, int chunk, int count) = 0;

  // The devices and ranks that fill the lanes of this compute's outputs, by lane. Needed only where outputs may cross
  // processes.
  struct LaneSources {
    std::vector<Device*> devices;
    std::vector<int> ranks;  // ranks of the mesh
  };
  virtual LaneSources lane_sources() const { return {}; }

  virtual void attach(std::shared_ptr<StageEvents> events) = 0;
  virtual void begin_step(const StepInfo& step) = 0;
  virtual void launch(const Launch& launch) = 0;
  // Called before O is launched; a skipped step has no O.
  virtual void verdict(const Verdict& verdict) = 0;
  // Called only where Pipeline::step() is given `coming`. N has been launched; forwards of the coming step may follow,
  // with V before them where the verdict is not known; then O of the running step, if it has one; then begin_step(),
  // whose info may differ from `coming` only in what backwards need. After V, a verdict() that does not confirm takes
  // back V and the forwards launched so far: once they have completed, they are launched again, after O.
  virtual void begin_early(const StepInfo& coming) { static_cast<void>(coming); }
  // Makes all launched actions end soon; later launches only report enqueued and completed.
  virtual void abort(std::exception_ptr cause) noexcept = 0;

  // --- reports and saving; a compute without them keeps the defaults ---
  // Called after a step: sets the times of its actions where they were measured meanwhile, and returns those of each
  // rank's device.
  virtual std::vector<DeviceActions> add_times(StageTrace&) { return {}; }
  // Returns the memory use of each rank's device, in rank order.
  virtual std::vector<MemoryUse> memory() const { return {}; }
  // Between steps only: fills `out`, host memory that stays valid until state_read(number) or failed() answers.
  virtual void read_state(std::int64_t number, const StatePart& part, float* out);
  // Takes a snapshot of the compute's state while no action that changes it is in flight, and writes it to the folder
  // `where` while later steps run. Always answered by state_saved(), also after abort(); not called again before that.
  virtual void save_state(std::int64_t number, const std::string& where);
  // Returns the number of values that read_state() would fill. Thread-safe. Throws where there is no such part.
  virtual std::size_t state_elements(const StatePart& part) const;
};

// The source of one replica's microbatches. The feeder actor makes one call at a time; calls must not block for long.
class InputSource {
 public:
  virtual ~InputSource() = default;
  // Puts microbatch `microbatch` of the step into every lane of the slot: tokens for InputKind::activation, targets for
  // InputKind::target. Sets the lanes' shapes and, where a lane has events, waits for `free` and records `ready`. An
  // exception ends the run.
  virtual void fill(schedules::InputKind kind, const StepInfo& step, int microbatch, Slot& slot) = 0;
  // True where fill() only hands over data that is ready, so that a stage's thread may call it between two actions.
  // Never changes.
  virtual bool fills_at_once() const { return false; }
  // All of this step has been filled: prepares the next one, if it comes. Must not throw.
  virtual void look_ahead(const StepInfo&) {}
};

// Slots without memory, for computes that move none.
std::vector<SlotHandle> make_empty_slots(int count);

}  // namespace pipetrain
