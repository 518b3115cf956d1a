#include "actors/training/run/membership.hpp"

#include <algorithm>
#include <chrono>
#include <future>
#include <iterator>
#include <map>
#include <thread>
#include <utility>

#include "actors/engine/remote/engine_channel.hpp"
#include "actors/ranks/run_processes.hpp"
#include "actors/training/copies/agreement.hpp"
#include "actors/training/run/job_memory.hpp"
#include "core/error.hpp"
#include "core/wire.hpp"
#include "schedules/simulate/following_steps.hpp"

namespace pipetrain {
namespace {

// A GPU's memory that a lost process had is free a while after the process has ended.
constexpr std::chrono::seconds longest_release{15};

}  // namespace

Membership::Membership(const TrainJob& job, const Setup& setup) : job_(job), setup_(setup), layout_(job, setup.channel) {
  sources_.emplace(job_, layout_, setup_.training, setup_.evaluation);
  check_memory();
  if (layout_.passes_copies()) buddies_ = std::make_shared<BuddyPlace>();
  build_computes();
  if (buddies_) open_buddies();
  if (setup_.copies != nullptr && setup_.channel)
    open_shared_copies(*setup_.channel, layout_.mesh().ranks_of(setup_.channel->process()), *setup_.copies);
  build_pipeline();
}

// Work on one device may still touch another's memory, so everything stops before anything is freed.
Membership::~Membership() {
  pipeline_.reset();
  for (const auto& compute : computes_) compute->wait_until_idle();
  computes_.clear();  // their copies may still report to the ring
  if (buddies_) buddies_->ring.reset();
}

// The machine's memory is shared by all of the run's processes on it.
void Membership::check_memory() const {
  auto devices = estimate_devices(layout_, job_);
  for (DeviceMemory& device :
       devices) {  // memory of copies that the membership before has made is not free, and not needed again
    const int rank = layout_.mesh().rank(device.rank);
    if (setup_.copies != nullptr) device.use.copies -= std::min(device.use.copies, setup_.copies->of_rank(rank)->bytes());
  }
  std::size_t other_bytes = 0;
  if (setup_.channel) {
    const bool cpu = job_.devices.kind == DeviceKind::cpu;
    std::size_t own = 0;
    for (const auto& device : devices)
      own += (cpu ? device.use.total() : device.use.host) + device.use.snapshot + device.use.copies;
    other_bytes = host_bytes_of_others(*setup_.channel, own);
  }
  auto shortage = memory_shortage(layout_, job_, devices, other_bytes);
  if (setup_.continued && job_.devices.kind == DeviceKind::cuda) {
    const auto until = std::chrono::steady_clock::now() + longest_release;
    while (shortage && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      shortage = memory_shortage(layout_, job_, devices, other_bytes);
    }
  }
  if (shortage) throw Error(*shortage);
}

std::vector<RankSetup> Membership::rank_setups(StageId id) const {
  auto setups = layout_.rank_setups(job_, id);
  for (RankSetup& setup : setups) {
    setup.training = setup_.training;
    setup.evaluation = setup_.evaluation;
    if (setup_.copies == nullptr) continue;
    const auto copies = setup_.copies->of_rank(setup.rank);
    setup.copies = copies;
    setup.records = setup_.copies->records;
    setup.buddies = buddies_;
    if (setup_.continued) setup.continued = {setup_.copies->continued_by(setup.rank).get(), *setup_.continued};
  }
  return setups;
}

// Builds all at once, because each takes seconds to draw or read its weights.
void Membership::build_computes() {
  std::vector<std::future<std::shared_ptr<TransformerCompute>>> building;
  for (const StageId id : layout_.stages()) {
    building.push_back(std::async(std::launch::async, [this, setups = rank_setups(id)]() mutable {
      return std::make_shared<TransformerCompute>(std::move(setups), job_.initial);
    }));
  }
  for (auto& one : building) one.wait();
  for (auto& one : building) computes_.push_back(one.get());
}

// The processes tell each other the sizes of what they pass on.
void Membership::open_buddies() {
  const bool divided = divides_states(job_);
  const Mesh& mesh = layout_.mesh();
  std::map<int, std::size_t> elements;  // by rank of this process
  const std::vector<StageId> stages = layout_.stages();
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const std::vector<std::size_t> of_ranks = computes_[i]->copy_elements();
    const auto setups = layout_.rank_setups(job_, stages[i]);
    for (std::size_t at = 0; at < setups.size(); ++at) elements[setups[at].rank] = of_ranks[at];
  }
  EngineChannel& channel = *setup_.channel;
  WireWriter mine;
  mine.list(states_of_process(channel.process(), mesh, divided),
            [&](int rank) { mine.number(static_cast<std::uint64_t>(elements.at(rank))); });
  const auto all = channel.exchange("copies for buddies", std::move(mine).data());
  const auto passed_by = [&](int process) {
    PassedCopies passed{states_of_process(process, mesh, divided), {}};
    WireReader in(all[static_cast<std::size_t>(process)]);
    if (in.count(sizeof(std::uint64_t)) != passed.ranks.size()) WireReader::refuse("another number of copies");
    for (std::size_t i = 0; i < passed.ranks.size(); ++i) passed.elements.push_back(in.number<std::uint64_t>());
    return passed;
  };
  if (!layout_.buddy_group()) return;  // a spare process
  const std::vector<int>& holders = layout_.buddy_order();
  const auto own = std::find(holders.begin(), holders.end(), channel.process());
  BuddyRing::Setup setup;
  setup.ring = layout_.buddy_group();
  setup.device = &layout_.first_device();
  setup.own = passed_by(channel.process());
  setup.received = passed_by(own == holders.begin() ? holders.back() : *std::prev(own));
  for (const int process : holders) setup.bytes = std::max(setup.bytes, passed_by(process).bytes());
  for (const PassedCopies* passed : {&setup.own, &setup.received})
    for (const int rank : passed->ranks) setup.copies[rank] = setup_.copies->of_rank(rank);
  buddies_->ring = std::make_unique<BuddyRing>(std::move(setup));
}

void Membership::build_pipeline() {
  PipelineOptions options;
  options.plan = layout_.plan();
  options.order = job_.layout.order;
  options.replayed = job_.layout.replayed;
  options.slot_life = TransformerCompute::slot_life();
  options.needs = layout_.needs();
  if (job_.post_validation) options.begins_before_verdict = stages_that_wait(options.plan, options.needs);
  options.replicas = layout_.mesh().shape().dp;
  options.stall = job_.stall;
  options.recorder = job_.recorder;
  options.membership = setup_.number;
  if (setup_.channel) options.processes = processes();
  pipeline_ = std::make_unique<Pipeline>(
      options, [this, next = std::size_t{0}](StageId, const schedules::StageNeeds&) mutable { return computes_[next++]; },
      [this](int replica) { return sources_->make(replica, 0); });
}

PipelineProcesses Membership::processes() {
  PipelineProcesses processes;
  processes.channel = setup_.channel;
  processes.transport = layout_.transport();
  processes.parts = layout_.stage_mesh();
  processes.make_source = [this](int replica, int part) { return sources_->make(replica, part); };
  return processes;
}

}  // namespace pipetrain
