#include "apps/processes/joined_run.hpp"

#include <exception>
#include <string_view>
#include <thread>
#include <utility>

#include "actors/engine/failure.hpp"
#include "apps/output/launch_report.hpp"
#include "apps/output/process_label.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/signals/signals.hpp"
#include "comm/control/settings.hpp"
#include "comm/successive_planes.hpp"
#include "comm/transport_memory.hpp"
#include "core/error.hpp"
#include "core/wire.hpp"

namespace pipetrain {

namespace {

// Encodes a process's error for the others; empty bytes if it has none.
Bytes encode(const Error& error) {
  WireWriter writer;
  writer.number(error.kind());
  writer.text(error_line(error));
  return std::move(writer).data();
}

Error decode(const Bytes& bytes, const std::string& process) {
  WireReader reader(bytes);
  const auto kind = reader.choice(ErrorKind::internal);
  return {kind, process + ": " + reader.text()};
}

// Deals ranks to the first processes, or, where none is spare, to all of them in order.
void deal_to(int holders, int ranks, int spares, RunProcesses& processes) {
  processes.spares = spares;
  processes.process_of.clear();
  if (spares == 0) return;
  for (const RankLocation& place : deal_ranks(ranks, holders)) processes.process_of.push_back(place.process);
}

}  // namespace

bool has_lost_others(const RunProcesses& processes) {
  if (!processes.planes || processes.joins) return false;
  constexpr std::chrono::milliseconds look{5};
  const std::shared_ptr<ControlPlane> plane = processes.planes->current();
  for (auto left = time_to_notice_a_loss; left.count() > 0; left -= look) {
    for (int process = 0; process < plane->processes(); ++process)
      if (plane->is_lost(process)) return process != plane->process();
    std::this_thread::sleep_for(look);
  }
  return false;
}

std::optional<PlannedProcesses> planned_processes(const ProcessOptions& options, DeviceKind devices) {
  if (!options.several()) return {};
  const bool one_host = options.locals >= options.processes;
  return PlannedProcesses{options.processes, options.transport.value_or(usual_transport(devices, one_host))};
}

JoinedRun::JoinedRun(const ProcessOptions& options, const JoinRequest& request) : processes_(std::make_shared<RunProcesses>()) {
  processes_->transport = options.transport;
  Rendezvous rendezvous = rendezvous_of(options);
  rendezvous.settings = request.settings;
  if (options.join) {
    join_begun(rendezvous, request);
    return;
  }
  const int holders = options.processes - request.spares;
  const ProcessLabels labels(request.shape, holders);
  deal_to(holders, Mesh(request.shape).size(), request.spares, *processes_);
  rendezvous.label = labels.label(options.process);
  const control::Settings settings{.patience = request.stall};
  placing_errors(request.places, [&] { processes_->control = control::join_processes(rendezvous, settings); });
  if (request.continues) {
    processes_->planes = std::make_shared<control::SuccessivePlanes>(rendezvous, settings, processes_->control);
    processes_->planes->on_begin([this](ControlPlane& plane) { begin_membership(plane); });
  } else {
    receive_messages(*processes_->control);
  }
  if (!leads()) set_line_begin("[" + labels.ranks(control()->process()) + "] ");
  report_joined();
}

void JoinedRun::join_begun(const Rendezvous& begun, const JoinRequest& request) {
  Rendezvous rendezvous = begun;
  rendezvous.label = "joined";
  const control::Settings settings{.patience = request.stall};
  processes_->spares = request.spares;
  placing_errors(request.places,
                 [&] { processes_->planes = std::make_shared<control::SuccessivePlanes>(rendezvous, settings); });
  processes_->joins = true;
  processes_->planes->on_begin([this](ControlPlane& plane) { begin_membership(plane); });
  set_line_begin("[joined] ");
}

JoinedRun::~JoinedRun() {
  if (processes_->planes) processes_->planes->on_begin({});
  const std::shared_ptr<ControlPlane> plane = control();
  if (!plane) return;  // it has not joined
  plane->on_message(Channel::run, {});
  plane->leave();
}

std::shared_ptr<ControlPlane> JoinedRun::control() const {
  return processes_->planes ? processes_->planes->current() : processes_->control;
}

void JoinedRun::begin_membership(ControlPlane& control) {
  const auto& planes = *processes_->planes;
  departures_.begin_membership(planes.membership() + planes.layout().changes);
  report_member(planes.membership(), planes.door());
  receive_messages(control);
}

// A request to leave that the process 0 before this one had is repeated.
void JoinedRun::receive_messages(ControlPlane& control) {
  control.on_message(Channel::run, [this](int from, std::span<const std::byte> bytes) { on_message(from, bytes); });
  if (departures_.asks() && control.process() != 0)
    control.send(0, Channel::run, to_bytes(RunMessage{RunMessage::Kind::asks_leave, 0, {}}));
}

int JoinedRun::first_number(int process) const {
  return processes_->planes ? processes_->planes->first_number(process) : process;
}

void JoinedRun::together(const std::string& what, const std::function<void()>& work) {
  Bytes mine;
  std::exception_ptr own;
  try {
    work();
  } catch (const Error& error) {
    own = std::current_exception();
    mine = encode(error);
  }
  const auto all = control()->exchange(what, std::move(mine));
  if (own) std::rethrow_exception(own);
  for (int process = 0; process < control()->processes(); ++process) {
    const Bytes& bytes = all[static_cast<std::size_t>(process)];
    if (!bytes.empty()) throw decode(bytes, to_string(control()->info(process)));
  }
}

void JoinedRun::in_first(const std::string& what, const std::function<void()>& work) {
  together(what, [&] {
    if (leads()) work();
  });
}

std::string JoinedRun::from_first(const std::string& what, const std::string& text) {
  WireWriter writer;
  if (leads()) writer.text(text);
  const auto all = control()->exchange(what, std::move(writer).data());
  return WireReader(all.front()).text();
}

bool JoinedRun::must_report(const Error& failure) const {
  return leads() || std::string_view(failure.what()).find(to_string(control()->info(0))) != std::string_view::npos;
}

bool JoinedRun::is_first_follower() const {
  for (int process = 1; process < control()->process(); ++process)
    if (!control()->is_gone(process)) return false;
  return true;
}

void JoinedRun::on_half(std::function<bool()> handler) {
  if (processes_->planes) processes_->planes->on_half(std::move(handler));
}

void JoinedRun::ask_to_stop(int signal) noexcept {
  const Bytes message = to_bytes(RunMessage{RunMessage::Kind::stop, signal, {}});
  const std::shared_ptr<ControlPlane> plane = control();
  if (plane->process() != 0) return plane->send(0, Channel::run, message);
  for (int process = 1; process < plane->processes(); ++process) plane->send(process, Channel::run, message);
}

void JoinedRun::ask_to_leave() {
  departures_.ask();
  const std::shared_ptr<ControlPlane> plane = control();
  if (plane->process() != 0) plane->send(0, Channel::run, to_bytes(RunMessage{RunMessage::Kind::asks_leave, 0, {}}));
}

std::vector<int> JoinedRun::leavers() const {
  std::vector<int> leavers;
  const std::shared_ptr<ControlPlane> plane = control();
  for (int process = 0; process < plane->processes(); ++process) {
    const bool asked = process == 0 ? departures_.asks() : departures_.has_asked(first_number(process));
    if (asked && !plane->is_gone(process)) leavers.push_back(process);
  }
  return leavers;
}

void JoinedRun::announce_leave(int process) {
  const std::shared_ptr<ControlPlane> plane = control();
  const int number = first_number(process);
  departures_.announce(number);
  for (int other = 1; other < plane->processes(); ++other)
    plane->send(other, Channel::run, to_bytes(RunMessage{RunMessage::Kind::leaves, number, {}}));
}

void JoinedRun::let_leave(int process) {
  control()->send(process, Channel::run, to_bytes(RunMessage{RunMessage::Kind::may_leave, 0, {}}));
}

void JoinedRun::announce_relayout(const std::string& text) {
  const std::shared_ptr<ControlPlane> plane = control();
  const RunLayout next{layout().changes + 1, text};
  set_layout(next);
  for (int process = 1; process < plane->processes(); ++process)
    plane->send(process, Channel::run, to_bytes(RunMessage{RunMessage::Kind::relayout, next.changes, text}));
}

RunLayout JoinedRun::layout() const { return processes_->planes ? processes_->planes->layout() : layout_.get(); }

void JoinedRun::set_layout(const RunLayout& layout) {
  processes_->planes ? processes_->planes->set_layout(layout) : layout_.set(layout);
}

// The exchange also makes sure that no message of the old layout is in flight any more.
void JoinedRun::deal_anew(int ranks, int spares) {
  if (processes_->planes) processes_->planes->set_runs(false);
  control()->exchange("relayout", {});
  if (processes_->planes) departures_.begin_membership(processes_->planes->membership() + layout().changes);
  deal(ranks, spares);
}

void JoinedRun::deal(int ranks, int spares) { deal_to(control()->processes() - spares, ranks, spares, *processes_); }

void JoinedRun::gather() {
  processes_->planes->set_runs(false);
  processes_->planes->gather();
  processes_->control = processes_->planes->current();
}

std::string JoinedRun::door() const { return processes_->planes ? processes_->planes->door() : ""; }

// Called on the control plane's thread. When process 0 acts on a signal, it forwards it to all others.
void JoinedRun::on_message(int from, std::span<const std::byte> bytes) {
  const auto message = read_run_message(bytes);
  if (!message) return;
  switch (message->kind) {
    case RunMessage::Kind::stop:
      if (asks_to_stop(message->number)) request_stop(message->number);
      return;
    case RunMessage::Kind::asks_leave:
      return departures_.asked(first_number(from));
    case RunMessage::Kind::leaves:
      return departures_.announce(message->number);
    case RunMessage::Kind::may_leave:
      return departures_.leave();
    case RunMessage::Kind::relayout:
      return set_layout({message->number, message->text});
  }
}

}  // namespace pipetrain
