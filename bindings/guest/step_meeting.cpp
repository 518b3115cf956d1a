#include "bindings/guest/step_meeting.hpp"

#include <utility>

#include "core/error.hpp"
#include "core/wire.hpp"

namespace pipetrain {

std::string to_string(const StepCall& call) {
  return (call.kind == schedules::StepKind::training ? "step " : "evaluation ") + std::to_string(call.step);
}

namespace {

enum class News : std::uint8_t { came, begun, ended };

WireWriter begin_message(News news, const StepCall& call) {
  WireWriter out;
  out.number(news);
  out.number(call.round);
  out.number(call.kind);
  out.number(call.step);
  return out;
}

StepCall read_call(WireReader& in) {
  StepCall call;
  call.round = in.number<std::int64_t>();
  call.kind = in.choice(schedules::StepKind::evaluation);
  call.step = in.number<std::int64_t>();
  return call;
}

void write(WireWriter& out, const StepEnd& end) {
  out.list(end.results, [&](const StageResult& result) { out.list(result, [&](double value) { out.number(value); }); });
  out.number(static_cast<std::uint8_t>(end.verdict.apply));
  out.number(end.verdict.grad_scale);
}

StepEnd read_end(WireReader& in) {
  StepEnd end;
  end.results.resize(in.count(sizeof(std::uint32_t)));
  for (StageResult& result : end.results) {
    result.resize(in.count(sizeof(double)));
    for (double& value : result) value = in.number<double>();
  }
  end.verdict.apply = in.number<std::uint8_t>() != 0;
  end.verdict.grad_scale = in.number<double>();
  return end;
}

}  // namespace

StepMeeting::StepMeeting(std::shared_ptr<ControlPlane> control)
    : control_(std::move(control)), came_(static_cast<std::size_t>(control_->processes())) {
  control_->on_message(Channel::run, [this](int from, std::span<const std::byte> message) { received(from, message); });
}

StepMeeting::~StepMeeting() { control_->on_message(Channel::run, {}); }

void StepMeeting::wait(std::chrono::milliseconds longest) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, longest, [&] { return news_; });
  news_ = false;
}

std::vector<int> StepMeeting::missing(const StepCall& call) const {
  const std::lock_guard lock(mutex_);
  std::vector<int> processes;
  for (int process = 1; process < control_->processes(); ++process) {
    const StepCall& came = came_[static_cast<std::size_t>(process)];
    if (came.round < call.round) {
      processes.push_back(process);
    } else if (came != call) {
      throw Error(ErrorKind::input, to_string(control_->info(process)) + " is at " + to_string(came) + ", and process 0 at " +
                                        to_string(call) + ": all must run the same steps and evaluations");
    }
  }
  return processes;
}

void StepMeeting::begin(const StepCall& call) { send_to_others(begin_message(News::begun, call).data()); }

void StepMeeting::end(const StepCall& call, const StepEnd& end) {
  WireWriter out = begin_message(News::ended, call);
  write(out, end);
  send_to_others(out.data());
}

void StepMeeting::come(const StepCall& call) { control_->send(0, Channel::run, begin_message(News::came, call).data()); }

bool StepMeeting::begun(const StepCall& call) const {
  const std::lock_guard lock(mutex_);
  return begun_ >= call.round;
}

std::optional<StepEnd> StepMeeting::ended(const StepCall& call) const {
  const std::lock_guard lock(mutex_);
  if (ended_ != call.round) return std::nullopt;
  return end_;
}

// Runs on the control plane's thread, which reports exceptions.
void StepMeeting::received(int from, std::span<const std::byte> message) {
  WireReader in(message);
  const News news = in.choice(News::ended);
  const StepCall call = read_call(in);
  StepEnd end;
  if (news == News::ended) end = read_end(in);
  in.end();
  if ((news == News::came) != (control_->process() == 0) || (news != News::came && from != 0))
    WireReader::refuse("a message about a step that it must not send");
  {
    const std::lock_guard lock(mutex_);
    if (news == News::came) came_[static_cast<std::size_t>(from)] = call;
    if (news == News::begun) begun_ = call.round;
    if (news == News::ended) {
      ended_ = call.round;
      end_ = std::move(end);
    }
    news_ = true;
  }
  changed_.notify_all();
}

void StepMeeting::send_to_others(const Bytes& message) {
  for (int process = 1; process < control_->processes(); ++process) control_->send(process, Channel::run, message);
}

}  // namespace pipetrain
