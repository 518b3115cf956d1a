#include "bindings/guest/step_meeting.hpp"

#include <utility>

#include "core/error.hpp"
#include "core/wire_fields.hpp"

namespace pipetrain {

std::string to_string(const StepCall& call) {
  return (call.kind == schedules::StepKind::training ? "step " : "evaluation ") + std::to_string(call.step);
}

namespace {

enum class News : std::uint8_t { came, begun, ended };

struct Message {
  News news = News::came;
  StepCall call;
  StepEnd end;  // where the news is that it ended

  static void wire_fields(auto& wire, auto& message) {
    wire.choice(message.news, News::ended);
    wire(message.call.round);
    wire.choice(message.call.kind, schedules::StepKind::evaluation);
    wire(message.call.step);
    if (message.news == News::ended) wire(message.end.results, message.end.verdict.apply, message.end.verdict.grad_scale);
  }
};

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

void StepMeeting::begin(const StepCall& call) { send_to_others(to_bytes(Message{News::begun, call, {}})); }

void StepMeeting::end(const StepCall& call, const StepEnd& end) { send_to_others(to_bytes(Message{News::ended, call, end})); }

void StepMeeting::come(const StepCall& call) { control_->send(0, Channel::run, to_bytes(Message{News::came, call, {}})); }

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
  auto [news, call, end] = read_message<Message>(message);
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
