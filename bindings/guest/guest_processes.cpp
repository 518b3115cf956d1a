#include "bindings/guest/guest_processes.hpp"

#include "actors/engine/remote/joined_transport.hpp"
#include "core/error.hpp"
#include "schedules/plan/plan_text.hpp"

namespace pipetrain {

using schedules::InputKind;

std::vector<int> stages_of(int process, int processes, int stages) {
  return Mesh({.pp = stages}, deal_ranks(stages, processes)).ranks_of(process);
}

GuestProcesses::GuestProcesses(GuestPlacement places)
    : places_(std::move(places)),
      control_(places_.world->lend()),
      meeting_(control_),
      channel_(std::make_shared<EngineChannel>(control_)) {}

GuestProcesses::~GuestProcesses() {
  memory_.clear();
  world_.reset();  // includes the transport, whose edges the pipeline has closed
  transport_.reset();
  channel_.reset();
  places_.world->give_back();
}

Mesh GuestProcesses::make_mesh(const PipelineOptions& options) const {
  const MeshShape shape{.dp = options.replicas, .pp = options.plan.placement.stages()};
  std::vector<RankLocation> places = deal_ranks(Mesh(shape).size(), control_->processes());
  for (const auto& [rank, gpu] : places_.gpus) places.at(static_cast<std::size_t>(rank)).device = gpu;
  return Mesh(shape, std::move(places));
}

std::vector<std::pair<std::string, std::string>> GuestProcesses::agreed(const PipelineOptions& options) const {
  const auto life = [](schedules::ActionKind until) { return std::string(1, letter(until)); };
  std::string bytes;
  for (const std::size_t one : places_.bytes) bytes += std::to_string(one) + " ";
  return {{"plan", to_text(options.plan)},
          {"order", options.order == schedules::Order::planned ? "planned" : "ready"},
          {"number of replicas", std::to_string(options.replicas)},
          {"activation_life", life(options.slot_life.activation)},
          {"gradient_life", life(options.slot_life.gradient)},
          {"kind of device", places_.devices == DeviceKind::cpu ? "CPU" : "GPU"},
          {"size of the values between stages (largest)", bytes}};
}

PipelineProcesses GuestProcesses::begin(const PipelineOptions& options) try {
  placement_ = options.plan.placement;
  compare_values(agreed(options), "give all processes the same", *channel_);
  const std::span<const std::byte> note = std::as_bytes(std::span(places_.note));
  for (const Bytes& one : channel_->exchange("a note for all", Bytes(note.begin(), note.end())))
    notes_.emplace_back(reinterpret_cast<const char*>(one.data()), one.size());
  const Mesh mesh = make_mesh(options);
  const auto make = [&](ControlPlane& control, const Mesh& kept) {
    return make_transport(choose_transport(control, kept, places_.devices, nullptr), control, kept);
  };
  transport_ = join_transport(control_, mesh, make, channel_);
  const auto open = [&](int rank) {
    return places_.devices == DeviceKind::cpu ? make_cpu_device(rank, 1) : make_cuda_device(mesh.place(rank).device);
  };
  world_.emplace(mesh, control_->process(), open, transport_);
  return {.channel = channel_, .transport = transport_.get(), .parts = mesh, .make_source = {}};
} catch (...) {
  std::rethrow_exception(fail(std::current_exception()));
}

bool GuestProcesses::failed() const {
  try {
    channel_->check();
    return false;
  } catch (const Error&) {
    return true;
  }
}

bool GuestProcesses::comes_from_afar(const StageId& id, InputKind kind, int chunk) const {
  if (kind == InputKind::target) return false;
  const int v = placement_->virtual_stage(id.stage, chunk) + (kind == InputKind::activation ? -1 : 1);
  if (v < 0 || v >= placement_->virtual_stages()) return false;
  return !world_->runs(rank({.replica = id.replica, .stage = placement_->at(v).stage}));
}

std::vector<SlotHandle> GuestProcesses::make_slots(const StageId& id, InputKind kind, int chunk, int count) {
  const int v = placement_->virtual_stage(id.stage, chunk);
  const std::size_t bytes = align_up(places_.bytes.at(static_cast<std::size_t>(kind == InputKind::activation ? v - 1 : v)));
  if (count == 0) return {};
  memory_.push_back(world_->slot_memory(rank(id))(bytes * static_cast<std::size_t>(count), "what other processes send"));
  std::vector<SlotHandle> slots;
  for (int i = 0; i < count; ++i) {
    Lane lane;
    lane.tensor = {static_cast<std::byte*>(memory_.back().data()) + static_cast<std::size_t>(i) * bytes,
                   {static_cast<std::int64_t>(bytes / size_of(DType::i32))},
                   DType::i32};
    lane.capacity = bytes;
    lane.rank = rank(id);
    slots.push_back(std::make_shared<Slot>());
    slots.back()->lanes.push_back(std::move(lane));
  }
  return slots;
}

StageCompute::LaneSources GuestProcesses::lane_sources(const StageId& id) const {
  return {{&world_->device(rank(id))}, {rank(id)}};
}

}  // namespace pipetrain
