#include "actors/training/rank_compute.hpp"

#include <algorithm>

#include "actors/training/rank_memory.hpp"

namespace pipetrain {

using schedules::Action;
using schedules::ActionKind;
using schedules::InputKind;

RankCompute::RankCompute(RankSetup setup) : setup_(std::move(setup)) {
  Device& device = *setup_.device;
  const auto& id = setup_.id;
  stream_ = device.make_stream("s" + std::to_string(id.pp) + "r" + std::to_string(id.tp) + "d" + std::to_string(id.dp));
  if (on_gpu()) {
    callbacks_ = device.make_stream("callbacks");
    reached_ = device.make_event();
  }
  if (setup_.groups.tensor) tensor_group_ = std::make_unique<QuietGroup>(setup_.groups.tensor);
  ops_ = on_gpu() ? make_cuda_ops(*stream_, setup_.deterministic) : make_cpu_ops(*stream_);
  if (setup_.wrap_ops) ops_ = setup_.wrap_ops(std::move(ops_), id);
  model_ = make_stage_model(setup_.config, setup_.chunks, setup_.shape, tensor_parallel(), *ops_, setup_.precision,
                            setup_.recompute);
  memory_ = memory_use(setup_, *model_);

  arenas_.weights = allocate(weights_memory_, layout().weight_elements, DType::f32, "parameters");
  arenas_.grads = allocate(grads_memory_, layout().grad_elements, DType::f32, "gradients");
  arenas_.m = allocate(m_memory_, layout().weight_elements, DType::f32, "optimizer state");
  arenas_.v = allocate(v_memory_, layout().weight_elements, DType::f32, "optimizer state");
  workspace_memory_ = device.allocate(model_->workspace_bytes(), to_string(id) + ": workspace");
  if (setup_.precision != DType::f32) {
    arenas_.rounded = allocate(rounded_memory_, layout().weight_elements, setup_.precision, "rounded parameters");
  }
  model_->bind(arenas_.rounded.data ? arenas_.rounded : arenas_.weights, arenas_.grads);
  model_->bind_workspace(workspace_memory_.data(), workspace_memory_.bytes());

  counted_ = counted_parameters(layout(), id.tp);
  const auto losses = has_head() ? setup_.microbatches : 0;
  const auto sums = static_cast<std::int64_t>(counted_.size());
  reports_ = allocate(reports_memory_, static_cast<std::size_t>(losses + sums), DType::f64, "losses and norms");
  reports_host_memory_ = device.allocate_host(reports_.bytes(), to_string(id) + ": losses and norms");
  reports_host_ = {reports_host_memory_.data(), reports_.shape, DType::f64};
  losses_ = reports_.row_range(0, losses);
  square_sums_ = reports_.row_range(losses, losses + sums);

  stream_->zero(arenas_.grads);  // what lies between two tensors is summed over replicas, too
  stream_->zero(arenas_.weights);
  stream_->zero(arenas_.m);
  stream_->zero(arenas_.v);
  activations_.emplace(*model_, setup_.needs, setup_.microbatches, device, to_string(id));
  links_.emplace(setup_.links, LinkSetup{&device, hidden_bytes(setup_, model_->hidden_shape()), to_string(id)});
  clock_ = std::make_unique<ActionClock>(device);
  if (setup_.groups.data) reduction_ = std::make_unique<GradientReduction>(device, setup_.groups.data, "sums over replicas");
  if (on_gpu()) warm_up();
}

// Work may still be on its way after a failure; memory must outlive it.
RankCompute::~RankCompute() { wait_until_idle(); }

void RankCompute::wait_until_idle() noexcept {
  for (Stream* stream : streams()) {
    try {
      stream->synchronize();
    } catch (...) {
    }
  }
  if (PiecewiseTransfer* transfer = tensor_group_ ? tensor_group_->in_pieces() : nullptr) transfer->wait_until_idle();
}

std::vector<Stream*> RankCompute::streams() const {
  std::vector<Stream*> streams{stream_.get()};
  if (links_) {
    for (Stream* stream : links_->streams()) streams.push_back(stream);
  }
  if (reduction_) streams.push_back(&reduction_->stream());
  if (callbacks_) streams.push_back(callbacks_.get());
  return streams;
}

void RankCompute::call_back(std::function<void()> callback) {
  if (!callbacks_) return stream_->host_callback(std::move(callback));
  stream_->record(*reached_);
  callbacks_->wait(*reached_);
  callbacks_->host_callback(std::move(callback));
}

std::exception_ptr RankCompute::failure() const {
  for (const Stream* stream : streams()) {
    if (auto cause = stream->failure()) return cause;
  }
  return nullptr;
}

Tensor RankCompute::allocate(Buffer& buffer, std::size_t elements, DType dtype, const std::string& what) {
  buffer = setup_.device->allocate(elements * size_of(dtype), to_string(setup_.id) + ": " + what);
  return {buffer.data(), {static_cast<std::int64_t>(elements)}, dtype};
}

bool RankCompute::has_head() const {
  return std::any_of(setup_.chunks.begin(), setup_.chunks.end(),
                     [](const std::vector<Block>& blocks) { return blocks.back().kind == BlockKind::head; });
}

Lane RankCompute::make_lane(InputKind kind, int chunk) {
  lane_memory_.push_back(
      setup_.device->allocate(lane_bytes(setup_, kind, chunk, model_->hidden_shape()), to_string(setup_.id) + ": queue"));
  Lane lane;
  lane.tensor = lane_tensor(setup_, kind, chunk, model_->hidden_shape());
  lane.tensor.data = lane_memory_.back().data();
  lane.capacity = lane_memory_.back().bytes();
  lane.ready = setup_.device->make_event();
  lane.free = setup_.device->make_event();
  lane.rank = setup_.rank;
  return lane;
}

void RankCompute::begin_step(const StepInfo& step) {
  step_ = step;
  clock_->begin_step(*stream_);
  model_->begin_step();
  if (setup_.fault && setup_.fault->step == step.step) provoke(*setup_.fault);
}

void RankCompute::run(const Launch& launch) {
  const auto lane = static_cast<std::size_t>(setup_.id.tp);
  for (const auto& input : {launch.activation, launch.gradient, launch.target}) {
    if (input) wait_until_ready(*stream_, *input, lane);
  }
  Lane* output = launch.output ? &launch.output->lanes[lane] : nullptr;
  Link* link = output ? &links_->to(*output) : nullptr;
  const Tensor target = link ? link->begin(*stream_, *output) : Tensor{};
  clock_->start(*stream_, launch.action);
  if (schedules::is_compute(launch.action.kind)) {
    run_compute(launch, target);
  } else {
    run_end_of_step(launch.action);
  }
  clock_->end(*stream_);
  if (link) link->send(*stream_, *output);
  for (const auto& slot : launch.release) mark_free(*stream_, *slot, lane);
  clock_->collect();
}

const std::vector<DeviceAction>& RankCompute::trace() {
  clock_->collect();
  return clock_->actions();
}

void RankCompute::run_compute(const Launch& launch, const Tensor& output) {
  const Action& action = launch.action;
  const auto lane = static_cast<std::size_t>(setup_.id.tp);
  const auto tensor = [lane](const SlotHandle& slot) { return slot ? slot->lanes[lane].tensor : Tensor{}; };
  ActivationSlot& slot = activations_->take(action);
  // Of the step's last microbatch the gradients are final as they come.
  if (reduction_ && setup_.same_order && action.microbatch == setup_.microbatches - 1) {
    model_->listen([this](const Tensor& dw) { reduction_->start(*stream_, dw); });
  }
  const BackwardArgs backward{tensor(launch.gradient), output, static_cast<float>(1.0 / step_.tokens)};
  switch (action.kind) {
    case ActionKind::forward: {
      ForwardArgs forward{tensor(launch.activation), tensor(launch.target), output, {}};
      if (launch.target) forward.loss_sum = losses_.row_range(action.microbatch, action.microbatch + 1);
      model_->forward(action.chunk, forward, slot);
      break;
    }
    case ActionKind::backward:
      model_->backward(action.chunk, backward, slot);
      break;
    case ActionKind::input_grad:
      model_->input_grad(action.chunk, backward, slot);
      break;
    default:
      model_->weight_grad(action.chunk, slot);
      break;
  }
  if (reduction_) model_->listen({});
  activations_->release(action);
}

void RankCompute::run_end_of_step(const Action& action) {
  switch (action.kind) {
    case ActionKind::reduce_grads: {
      const Region region = layout().chunk_grads[static_cast<std::size_t>(action.chunk)];
      const auto grads =
          arenas_.grads.row_range(static_cast<std::int64_t>(region.begin), static_cast<std::int64_t>(region.end));
      if (reduction_) reduction_->finish(*stream_, grads);
      break;
    }
    case ActionKind::sum_replicated:
      sum_replicated_grads(layout(), action.chunk, tensor_parallel(), *ops_, arenas_.grads);
      break;
    case ActionKind::sum_tied:
      sum_tied();
      break;
    case ActionKind::norm:
      square_sums(layout(), setup_.id.tp, *ops_, arenas_.grads, square_sums_);
      stream_->copy(reports_host_.data, reports_.data, reports_.bytes());
      break;
    default:
      if (verdict_.apply) {
        AdamW settings = setup_.adamw;
        settings.lr = static_cast<float>(step_.learning_rate);
        settings.step = ++applied_steps_;
        settings.grad_scale = static_cast<float>(verdict_.grad_scale);
        adamw_step(layout(), *ops_, arenas_, settings);
      }
      break;
  }
}

void RankCompute::sum_tied() {
  const TiedGrads tied = tied_grads(layout(), setup_.config, arenas_.grads);
  if (setup_.groups.tied) {
    setup_.groups.tied->all_reduce(*stream_, tied.has_embedding() ? tied.embedding : tied.head, Reduction::sum);
  } else {
    sum_tied_grads(tied, *ops_);
  }
}

RankResult RankCompute::result() const {
  RankResult result;
  const auto* values = reports_host_.as<double>();
  result.loss_sums.assign(values, values + losses_.elements());
  values += losses_.elements();
  for (std::size_t i = 0; i < counted_.size(); ++i) {
    result.norm_parts.push_back({layout().parameters[counted_[i]].name, setup_.id.tp, values[i]});
  }
  return result;
}

void RankCompute::fail(std::exception_ptr cause) {
  stream_->fail(cause);
  for (Stream* stream : links_->streams()) stream->fail(cause);
  if (reduction_) reduction_->stream().fail(cause);
  if (callbacks_) static_cast<void>(callbacks_->failure());  // after a device's fault: lets it call those that wait
  for (const auto& group : {setup_.groups.tensor, setup_.groups.data, setup_.groups.tied}) {
    if (group) group->abort(cause);
  }
}

}  // namespace pipetrain
