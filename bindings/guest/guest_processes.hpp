// One process's part of a pipeline whose stages run in several: its agreements with the others, its devices, and the
// memory that stages of other processes fill.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/engine/pipeline.hpp"
#include "actors/engine/remote/engine_channel.hpp"
#include "bindings/guest/guest_world.hpp"
#include "bindings/guest/step_meeting.hpp"
#include "comm/transport.hpp"
#include "comm/world.hpp"
#include "core/buffer.hpp"

namespace pipetrain {

struct GuestPlacement {
  std::shared_ptr<GuestWorld> world;
  DeviceKind devices = DeviceKind::cpu;
  std::map<int, int> gpus;  // GPU number by rank (replica-major), for this process's ranks; empty for CPUs
  // The most bytes of one microbatch in a slot, by the boundary between two virtual stages.
  std::vector<std::size_t> bytes;
  std::string note = {};  // sent to all processes
};

// Stages are dealt to the processes in order, replica-major.
std::vector<int> stages_of(int process, int processes, int stages);

// Not thread-safe while it begins; the const methods are.
class GuestProcesses {
 public:
  // Throws Misuse.
  explicit GuestProcesses(GuestPlacement places);
  ~GuestProcesses();
  GuestProcesses(const GuestProcesses&) = delete;
  GuestProcesses& operator=(const GuestProcesses&) = delete;

  // Agrees with the others on a pipeline of these options and joins them. Throws Error (input: another process has
  // other options; unavailable, peer_lost) and tells the others.
  PipelineProcesses begin(const PipelineOptions& options);
  // Informs the others that this process gives up. Returns the exception to throw.
  std::exception_ptr fail(std::exception_ptr cause) { return channel_->fail(std::move(cause)); }

  bool leads() const { return channel_->process() == 0; }
  // True when another process, or a link to it, has failed.
  bool failed() const;
  std::string name_of(int process) const { return to_string(channel_->control().info(process)); }
  StepMeeting& meeting() { return meeting_; }
  // Returns the notes of all processes in their GuestPlacement; valid after begin().
  const std::vector<std::string>& notes() const { return notes_; }

  // The stages of this process call the functions below.
  // Returns true if another process fills the queue.
  bool comes_from_afar(const StageId& id, schedules::InputKind kind, int chunk) const;
  // Makes the slots of a queue that another process fills; this object owns the memory.
  std::vector<SlotHandle> make_slots(const StageId& id, schedules::InputKind kind, int chunk, int count);
  StageCompute::LaneSources lane_sources(const StageId& id) const;

 private:
  int rank(const StageId& id) const { return world_->mesh().rank({.dp = id.replica, .pp = id.stage}); }
  Mesh make_mesh(const PipelineOptions& options) const;
  std::vector<std::pair<std::string, std::string>> agreed(const PipelineOptions& options) const;

  GuestPlacement places_;
  std::shared_ptr<ControlPlane> control_;
  StepMeeting meeting_;
  std::shared_ptr<EngineChannel> channel_;
  std::vector<std::string> notes_;
  std::optional<schedules::Placement> placement_;
  std::shared_ptr<Transport> transport_;
  std::optional<World> world_;
  std::vector<Buffer> memory_;
};

}  // namespace pipetrain
