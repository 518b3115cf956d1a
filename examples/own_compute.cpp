// A compute of your own in pipetrain's pipeline: each of three stages multiplies by one number, and together they learn
// that the product of their numbers is 6. This file has the backward, the gradients, the verdict and the update; the
// engine has schedule, queues, credits and failures.
#include <cstdio>
#include <deque>
#include <memory>
#include <vector>

#include "actors/engine/pipeline.hpp"
#include "core/error.hpp"
#include "schedules/builders/builders.hpp"

using namespace pipetrain;
using schedules::ActionKind;
using schedules::InputKind;

namespace {

constexpr int stages = 3, microbatches = 8;

// Makes slots with one float each. Everything runs at launch, so no events are needed.
std::vector<SlotHandle> make_number_slots(int count) {
  std::vector<SlotHandle> slots;
  for (int i = 0; i < count; ++i) {
    const auto number = std::make_shared<float>(0.0F);
    const auto slot = std::make_shared<Slot>();
    slot->lanes.push_back({{number.get(), {1}, DType::f32}, sizeof(float), nullptr, nullptr});
    slot->owner = number;
    slots.push_back(slot);
  }
  return slots;
}

float& number(const SlotHandle& slot) { return *slot->lanes.front().tensor.as<float>(); }

class Multiply : public StageCompute {
 public:
  std::vector<SlotHandle> make_slots(InputKind, int, int count) override { return make_number_slots(count); }
  void attach(std::shared_ptr<StageEvents> events) override { events_ = std::move(events); }

  void begin_step(const StepInfo& step) override {
    step_ = step;
    gradient_ = loss_ = 0;
  }

  // Must not block. A real compute would enqueue to a stream here and answer from its callbacks.
  void launch(const Launch& launch) override {
    StageResult result;
    switch (launch.action.kind) {
      case ActionKind::forward:
        forward(launch);
        break;
      case ActionKind::backward:
        backward(launch);
        break;
      case ActionKind::norm:
        result = {loss_};
        break;
      case ActionKind::optimizer:  // not called for a skipped step
        weight_ -= static_cast<float>(step_.learning_rate * verdict_.grad_scale) * gradient_;
        break;
      default:
        throw Error(ErrorKind::internal, "this compute knows no " + to_string(launch.action));
    }
    events_->enqueued(launch.action);
    events_->completed(launch.action, {}, result);
  }

  void verdict(const Verdict& verdict) override { verdict_ = verdict; }
  void abort(std::exception_ptr) noexcept override {}

 private:
  // The last stage has targets and no output; its prediction waits for the backward.
  void forward(const Launch& launch) {
    const float y = weight_ * number(launch.activation);
    if (launch.output) {
      number(launch.output) = y;
    } else {
      const float error = y - number(launch.target);
      loss_ += error * error;
      errors_.push_back(error);
    }
  }

  void backward(const Launch& launch) {
    float dy = 0;
    if (launch.gradient) {
      dy = number(launch.gradient);
    } else {
      dy = 2 * errors_.front() / static_cast<float>(step_.tokens);
      errors_.pop_front();  // backwards run in the order of forwards
    }
    gradient_ += dy * number(launch.activation);
    if (launch.output) number(launch.output) = dy * weight_;
  }

  std::shared_ptr<StageEvents> events_;
  StepInfo step_;
  Verdict verdict_;
  float weight_ = 1, gradient_ = 0;
  double loss_ = 0;
  std::deque<float> errors_;
};

class Numbers : public InputSource {
 public:
  void fill(InputKind kind, const StepInfo&, int microbatch, Slot& slot) override {
    const float x = 1.0F + 0.1F * static_cast<float>(microbatch);
    *slot.lanes.front().tensor.as<float>() = kind == InputKind::activation ? x : 6 * x;
  }
};

}  // namespace

int main() {
  PipelineOptions options;
  const auto plan = schedules::build_schedule("1f1b", {.stages = stages, .chunks = 1, .microbatches = microbatches});
  options.plan = schedules::with_end_of_step(plan, {});
  // The backward reads the activation; nothing reads the gradient after it.
  options.slot_life = {.activation = ActionKind::input_grad, .gradient = ActionKind::input_grad};
  try {
    Pipeline pipeline(
        options, [](StageId, const schedules::StageNeeds&) { return std::make_shared<Multiply>(); },
        [](int) { return std::make_shared<Numbers>(); });
    for (int step = 1; step <= 10; ++step) {
      double loss = 0;
      const StepInfo info{.step = step, .microbatches = microbatches, .tokens = microbatches, .learning_rate = 0.01};
      pipeline.step(info, [&](const auto& results) {
        loss = results.back().front() / microbatches;
        return Verdict{.apply = true};
      });
      std::printf("step %d  loss %.6f\n", step, loss);
    }
  } catch (const RunFailed& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    for (const auto& line : failure.waiting()) std::fprintf(stderr, "  %s\n", line.c_str());
    return 1;
  }
}
