#include "apps/train/joined_run.hpp"

#include <csignal>
#include <exception>
#include <string_view>
#include <utility>

#include "actors/training/job_settings.hpp"
#include "apps/launch/launch_report.hpp"
#include "apps/output/process_label.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/signals/signals.hpp"
#include "comm/control/settings.hpp"
#include "core/wire.hpp"

namespace pipetrain {

namespace {

ProcessLabels labels_of(const TrainOptions& options) {
  const auto& layout = options.run.layout;
  return {MeshShape{.dp = static_cast<int>(options.run.batch.dp), .pp = layout.pp, .tp = layout.tp},
          options.processes.processes};
}

Rendezvous train_rendezvous(const TrainOptions& options) {
  Rendezvous rendezvous = rendezvous_of(options.processes);
  rendezvous.label = labels_of(options).label(options.processes.process);
  rendezvous.settings = job_settings(options.run);
  for (auto& [name, value] : rendezvous.settings) {
    if (name == "eps") name = "adam-eps";
  }
  return rendezvous;
}

// What went wrong in a process, for the others; empty bytes where nothing did.
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

JoinedRun::JoinedRun(const TrainOptions& options) : processes_(std::make_shared<RunProcesses>()) {
  processes_->transport = options.processes.transport;
  placing_errors(options.places, [&] {
    processes_->control = control::join_processes(train_rendezvous(options), {.patience = options.run.stall});
  });
  control().on_message(Channel::run, [this](int, std::span<const std::byte> message) { on_message(message); });
  if (!leads()) set_line_begin("[" + labels_of(options).ranks(control().process()) + "] ");
  report_joined();
}

JoinedRun::~JoinedRun() {
  control().on_message(Channel::run, {});
  control().leave();
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
  const auto all = control().exchange(what, std::move(mine));
  if (own) std::rethrow_exception(own);
  for (int process = 0; process < control().processes(); ++process) {
    const Bytes& bytes = all[static_cast<std::size_t>(process)];
    if (!bytes.empty()) throw decode(bytes, to_string(control().info(process)));
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
  const auto all = control().exchange(what, std::move(writer).data());
  return WireReader(all.front()).text();
}

bool JoinedRun::is_to_tell(const Error& failure) const {
  return leads() || std::string_view(failure.what()).find(to_string(control().info(0))) != std::string_view::npos;
}

void JoinedRun::ask_to_stop(int signal) noexcept {
  WireWriter writer;
  writer.number(static_cast<std::int32_t>(signal));
  if (!leads()) return control().send(0, Channel::run, writer.data());
  for (int process = 1; process < control().processes(); ++process) control().send(process, Channel::run, writer.data());
}

// On the control plane's thread. Process 0 tells all the others when it acts on the signal.
void JoinedRun::on_message(std::span<const std::byte> message) {
  if (message.size() != sizeof(std::int32_t)) return;
  const auto signal = WireReader(message).number<std::int32_t>();
  if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) request_stop(signal);
}

}  // namespace pipetrain
