#include "apps/processes/joined_run.hpp"

#include <csignal>
#include <exception>
#include <string_view>
#include <utility>

#include "apps/output/launch_report.hpp"
#include "apps/output/process_label.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/signals/signals.hpp"
#include "comm/control/settings.hpp"
#include "comm/successive_planes.hpp"
#include "comm/transport_memory.hpp"
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

}  // namespace

std::optional<PlannedProcesses> planned_processes(const ProcessOptions& options, DeviceKind devices) {
  if (!options.several()) return {};
  const bool one_host = options.locals >= options.processes;
  return PlannedProcesses{options.processes, options.transport.value_or(usual_transport(devices, one_host))};
}

JoinedRun::JoinedRun(const ProcessOptions& options, const JoinRequest& request) : processes_(std::make_shared<RunProcesses>()) {
  processes_->transport = options.transport;
  const int holders = options.processes - request.spares;
  const ProcessLabels labels(request.shape, holders);
  if (request.spares > 0)
    for (const RankLocation& place : deal_ranks(Mesh(request.shape).size(), holders))
      processes_->process_of.push_back(place.process);
  Rendezvous rendezvous = rendezvous_of(options);
  rendezvous.label = labels.label(options.process);
  rendezvous.settings = request.settings;
  const control::Settings settings{.patience = request.stall};
  placing_errors(request.places, [&] { processes_->control = control::join_processes(rendezvous, settings); });
  if (request.continues) {
    processes_->planes = std::make_shared<control::SuccessivePlanes>(rendezvous, settings, processes_->control);
    processes_->planes->on_begin([this](ControlPlane& plane) { receive_signals(plane); });
  } else {
    receive_signals(*processes_->control);
  }
  if (!leads()) set_line_begin("[" + labels.ranks(control()->process()) + "] ");
  report_joined();
}

JoinedRun::~JoinedRun() {
  if (processes_->planes) processes_->planes->on_begin({});
  control()->on_message(Channel::run, {});
  control()->leave();
}

std::shared_ptr<ControlPlane> JoinedRun::control() const {
  return processes_->planes ? processes_->planes->current() : processes_->control;
}

void JoinedRun::receive_signals(ControlPlane& control) {
  control.on_message(Channel::run, [this](int, std::span<const std::byte> message) { on_message(message); });
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
  WireWriter writer;
  writer.number(static_cast<std::int32_t>(signal));
  const std::shared_ptr<ControlPlane> plane = control();
  if (plane->process() != 0) return plane->send(0, Channel::run, writer.data());
  for (int process = 1; process < plane->processes(); ++process) plane->send(process, Channel::run, writer.data());
}

// Called on the control plane's thread. When process 0 acts on the signal, it forwards it to all others.
void JoinedRun::on_message(std::span<const std::byte> message) {
  if (message.size() != sizeof(std::int32_t)) return;
  const auto signal = WireReader(message).number<std::int32_t>();
  if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) request_stop(signal);
}

}  // namespace pipetrain
