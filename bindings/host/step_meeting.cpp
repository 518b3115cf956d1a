#include "bindings/host/step_meeting.hpp"

#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/wire.hpp"

namespace pipetrain {
namespace {

enum class News : std::uint8_t { came, begun, ended };

WireWriter begin_message(News news, std::int64_t step) {
  WireWriter out;
  out.number(news);
  out.number(step);
  return out;
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

std::vector<int> StepMeeting::missing(std::int64_t step) const {
  const std::lock_guard lock(mutex_);
  std::vector<int> processes;
  for (int process = 1; process < control_->processes(); ++process) {
    const std::int64_t came = came_[static_cast<std::size_t>(process)];
    if (came > step)
      throw Error(ErrorKind::input, to_string(control_->info(process)) + " is at step " + std::to_string(came) +
                                        ", and process 0 at step " + std::to_string(step) + ": all must run the same steps");
    if (came < step) processes.push_back(process);
  }
  return processes;
}

void StepMeeting::begin(std::int64_t step) { tell_others(begin_message(News::begun, step).data()); }

void StepMeeting::end(std::int64_t step, const StepEnd& end) {
  WireWriter out = begin_message(News::ended, step);
  write(out, end);
  tell_others(out.data());
}

void StepMeeting::come(std::int64_t step) { control_->send(0, Channel::run, begin_message(News::came, step).data()); }

bool StepMeeting::begun(std::int64_t step) const {
  const std::lock_guard lock(mutex_);
  return begun_ >= step;
}

std::optional<StepEnd> StepMeeting::ended(std::int64_t step) const {
  const std::lock_guard lock(mutex_);
  if (ended_ != step) return std::nullopt;
  return end_;
}

// On the control plane's thread: what it throws is for that one to tell.
void StepMeeting::received(int from, std::span<const std::byte> message) {
  WireReader in(message);
  const News news = in.choice(News::ended);
  const auto step = in.number<std::int64_t>();
  StepEnd end;
  if (news == News::ended) end = read_end(in);
  in.end();
  if ((news == News::came) != (control_->process() == 0) || (news != News::came && from != 0))
    WireReader::refuse("news of a step that are not its own to tell");
  {
    const std::lock_guard lock(mutex_);
    if (news == News::came) came_[static_cast<std::size_t>(from)] = step;
    if (news == News::begun) begun_ = step;
    if (news == News::ended) {
      ended_ = step;
      end_ = std::move(end);
    }
    news_ = true;
  }
  changed_.notify_all();
}

void StepMeeting::tell_others(const Bytes& message) {
  for (int process = 1; process < control_->processes(); ++process) control_->send(process, Channel::run, message);
}

}  // namespace pipetrain
