#include "bindings/chain.hpp"

#include <algorithm>
#include <stdexcept>

namespace pipetrain::test {

namespace {

// A DLPack tensor of one double, which counts its instances.
struct Number {
  DLManagedTensor managed{};
  int64_t shape = 1;
  double value = 0;
  std::atomic<int>* alive = nullptr;
};

DLManagedTensor* make_number(std::atomic<int>& alive) {
  auto* number = new Number;
  number->alive = &alive;
  ++alive;
  DLTensor& tensor = number->managed.dl_tensor;
  tensor.data = &number->value;
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 1;
  tensor.dtype = {kDLFloat, 64, 1};
  tensor.shape = &number->shape;
  number->managed.manager_ctx = number;
  number->managed.deleter = [](DLManagedTensor* self) {
    auto* own = static_cast<Number*>(self->manager_ctx);
    --*own->alive;
    delete own;
  };
  return &number->managed;
}

double& number(const pipetrain_slot* slot) { return *static_cast<double*>(slot->tensor->dl_tensor.data); }

}  // namespace

Chain::Chain(const ChainOptions& options) : options_(options) {}

Chain::~Chain() {
  let_return();
  free_pipeline();
  for (Stage& stage : stages_)
    for (std::thread& answer : stage.answers) answer.join();
}

pipetrain_status Chain::create() {
  auto plan = build_plan(options_.schedule, options_.stages, options_.microbatches, options_.chunks);
  if (!options_.plan.empty()) plan = parse_plan(options_.plan);
  auto shape = sized<pipetrain_plan_shape>();
  if (pipetrain_plan_describe(plan.get(), &shape) != PIPETRAIN_OK) return PIPETRAIN_INPUT;
  for (int v = 0; v < shape.stages * shape.chunks; ++v) weights_.push_back(first_weight(v));
  auto request = sized<pipetrain_pipeline_request>();
  request.plan = plan.get();
  request.rules = sized<pipetrain_rules>();
  request.rules.order = options_.order;
  request.rules.activation_life = PIPETRAIN_UNTIL_W;  // W multiplies by it
  request.stall_seconds = options_.stall_seconds;
  request.grace_seconds = options_.grace_seconds;
  request.user = this;
  request.make_compute = make_compute;
  request.fill = fill;
  pipetrain_pipeline* pipeline = nullptr;
  const pipetrain_status status = pipetrain_pipeline_create(&request, &pipeline);
  pipeline_.reset(pipeline);
  return status;
}

pipetrain_status Chain::step(int number) {
  auto step = sized<pipetrain_step>();
  step.step = number;
  step.learning_rate = learning_rate;
  return pipetrain_pipeline_step(pipeline_.get(), &step, decide, this);
}

pipetrain_status Chain::evaluate() {
  auto step = sized<pipetrain_step>();
  step.step = 1;
  step.evaluation = 1;
  return pipetrain_pipeline_step(pipeline_.get(), &step, decide, this);
}

pipetrain_status Chain::free_pipeline() {
  if (!pipeline_) return PIPETRAIN_OK;
  const pipetrain_status status = pipetrain_pipeline_free(pipeline_.get());
  if (status == PIPETRAIN_OK) (void)pipeline_.release();
  return status;
}

int Chain::make_compute(void* user, const pipetrain_stage_request* request, pipetrain_compute* compute) {
  auto* self = static_cast<Chain*>(user);
  Stage& stage = self->stages_.emplace_back();
  stage.chain = self;
  stage.handle = request->handle;
  stage.gradients.resize(static_cast<std::size_t>(request->chunks));
  stage.virtual_stages.resize(static_cast<std::size_t>(request->chunks));
  stage.errors.resize(static_cast<std::size_t>(self->options_.microbatches));
  stage.loss.resize(1);
  compute->user = &stage;
  compute->make_slots = make_slots;
  compute->begin_step = begin_step;
  compute->verdict = verdict;
  if (self->options_.way == Way::launch) {
    compute->launch = launch;
  } else {
    compute->run = run;
  }
  compute->any_thread = self->options_.way == Way::run_on_any_thread;
  return 0;
}

int Chain::make_slots(void* user, int32_t, int32_t, pipetrain_slot* const* slots, size_t count) {
  auto* stage = static_cast<Stage*>(user);
  for (std::size_t i = 0; i < count; ++i) slots[i]->tensor = make_number(stage->chain->tensors_alive_);
  return 0;
}

int Chain::begin_step(void* user, const pipetrain_step* step) {
  auto* stage = static_cast<Stage*>(user);
  if (stage == &stage->chain->stages_.front()) stage->chain->launched_ = step->evaluation != 0 ? "evaluation" : "step";
  stage->gradients.assign(stage->gradients.size(), 0);
  stage->loss[0] = 0;
  return 0;
}

int Chain::verdict(void* user, const pipetrain_verdict* verdict) {
  auto* stage = static_cast<Stage*>(user);
  if (stage == &stage->chain->stages_.front()) stage->chain->launched_ += verdict->apply != 0 ? " =" : " -";
  return 0;
}

bool Chain::does_wrong(const pipetrain_launch& launch, int& code) {
  code = 0;
  if (options_.fault == Fault::none || launch.virtual_stage != 1 || launch.action.kind != PIPETRAIN_F ||
      launch.action.microbatch != 1)
    return false;
  if (options_.fault == Fault::exception) throw std::runtime_error("thrown by a callback");
  if (options_.fault == Fault::error) {
    pipetrain_fail("the second number is broken");
    code = 5;
  }
  if (options_.fault == Fault::no_return) may_return_.wait(false);
  return true;
}

int Chain::launch(void* user, const pipetrain_launch* launch) {
  auto* stage = static_cast<Stage*>(user);
  int code = 0;
  if (stage->chain->does_wrong(*launch, code) && stage->chain->options_.fault != Fault::no_return) return code;
  // Computed here, because the next action may need it, and answered elsewhere.
  auto results = stage->chain->compute(*stage, *launch);
  stage->answers.emplace_back([handle = stage->handle, action = launch->action, results = std::move(results)] {
    pipetrain_enqueued(handle, &action);
    pipetrain_completed(handle, &action, nullptr, results.data(), results.size());
  });
  return 0;
}

int Chain::run(void* user, const pipetrain_launch* launch, double* results, size_t capacity, size_t* count) {
  auto* stage = static_cast<Stage*>(user);
  int code = 0;
  if (stage->chain->does_wrong(*launch, code)) return code;
  const auto values = stage->chain->compute(*stage, *launch);
  for (; *count < values.size() && *count < capacity; ++*count) results[*count] = values[*count];
  return 0;
}

std::vector<double> Chain::compute(Stage& stage, const pipetrain_launch& launch) {
  const auto chunk = static_cast<std::size_t>(launch.action.chunk),
             microbatch = static_cast<std::size_t>(std::max(launch.action.microbatch, 0));
  const auto v = static_cast<std::size_t>(launch.virtual_stage);
  const auto dy = [&] {
    return launch.gradient != nullptr ? number(launch.gradient) : 2 * stage.errors[microbatch] / options_.microbatches;
  };
  stage.virtual_stages[chunk] = launch.virtual_stage;
  if (&stage == &stages_.front()) launched_ += std::string(" ") + "FBIWRSTNOX"[launch.action.kind];
  switch (launch.action.kind) {
    case PIPETRAIN_F: {
      const double y = weights_[v] * number(launch.activation);
      if (launch.output != nullptr) {
        number(launch.output) = y;
      } else {
        stage.errors[microbatch] = y - number(launch.target);
        stage.loss[0] += stage.errors[microbatch] * stage.errors[microbatch] / options_.microbatches;
      }
      return {};
    }
    case PIPETRAIN_B:
    case PIPETRAIN_I:
      if (launch.output != nullptr) number(launch.output) = dy() * weights_[v];
      if (launch.action.kind == PIPETRAIN_B) stage.gradients[chunk] += dy() * number(launch.activation);
      return {};
    case PIPETRAIN_W:
      stage.gradients[chunk] += dy() * number(launch.activation);
      return {};
    case PIPETRAIN_N:
      return stage.loss;
    case PIPETRAIN_X:
      customs_ += std::to_string(launch.virtual_stage) + ":" + launch.custom + " ";
      return {};
    default:
      for (std::size_t c = 0; c < stage.gradients.size(); ++c)
        weights_[static_cast<std::size_t>(stage.virtual_stages[c])] -= learning_rate * stage.gradients[c];
      return {};
  }
}

int Chain::fill(void*, int32_t, int32_t kind, const pipetrain_step*, int32_t microbatch, pipetrain_slot* slot) {
  number(slot) = (kind == PIPETRAIN_ACTIVATION ? 1 : 6) * input(microbatch);
  return 0;
}

int Chain::decide(void* user, const double* const* results, const size_t* counts, size_t stages, pipetrain_verdict*) {
  auto* self = static_cast<Chain*>(user);
  self->loss_ = 0;
  for (std::size_t i = 0; i < stages; ++i) self->loss_ += counts[i] > 0 ? results[i][0] : 0;
  return 0;
}

std::vector<double> Chain::reference(int virtual_stages, int microbatches, int steps) {
  std::vector<double> weights;
  for (int v = 0; v < virtual_stages; ++v) weights.push_back(first_weight(v));
  for (int step = 0; step < steps; ++step) {
    std::vector<double> gradients(weights.size(), 0);
    for (int m = 0; m < microbatches; ++m) {
      std::vector<double> x{input(m)};
      for (const double weight : weights) x.push_back(x.back() * weight);
      double dy = 2 * (x.back() - 6 * input(m)) / microbatches;
      for (std::size_t v = weights.size(); v-- > 0;) {
        gradients[v] += dy * x[v];
        dy *= weights[v];
      }
    }
    for (std::size_t v = 0; v < weights.size(); ++v) weights[v] -= learning_rate * gradients[v];
  }
  return weights;
}

}  // namespace pipetrain::test
