#include "actors/training/rank/rank_compute.hpp"

#include <algorithm>
#include <cassert>

#include "actors/training/rank/rank_memory.hpp"
#include "model/context/document_places.hpp"

namespace pipetrain {

using schedules::Action;
using schedules::ActionKind;
using schedules::InputKind;

namespace {

std::string stream_name(const MeshCoordinate& id) {
  return "s" + std::to_string(id.pp) + "r" + std::to_string(id.tp) + (id.cp > 0 ? "c" + std::to_string(id.cp) : "") + "d" +
         std::to_string(id.dp);
}

}  // namespace

RankCompute::RankCompute(RankSetup setup)
    : setup_(std::move(setup)), streams_(*setup_.device, stream_name(setup_.id)), stream_(&streams_.compute()) {
  Device& device = *setup_.device;
  const MeshCoordinate& id = setup_.id;
  if (setup_.groups.tensor) tensor_group_ = std::make_unique<QuietGroup>(setup_.groups.tensor);
  if (runs_in_turns(setup_)) {
    braid_ = std::make_unique<BraidGroup>(*tensor_group_, device, "braid");
    streams_.add({&braid_->stream()});
  }
  ops_ = make_ops();
  if (setup_.groups.context) {
    context_group_ = std::make_shared<QuietGroup>(setup_.groups.context);
    ring_ = std::make_unique<RingExchange>(device, context_group_, "ring of " + to_string(id));
    streams_.add({&ring_->stream()});
  }
  StageModelSpec spec = model_spec(setup_);
  spec.context.ring = ring_.get();
  model_ = make_stage_model(spec, tensor_parallel(), *ops_);
  memory_ = memory_use(setup_, *model_);

  state_.emplace(setup_, layout(), tensor_parallel(), *ops_);
  streams_.add(state_->transfer_streams());
  model_->bind(state_->parameters(), state_->gradient_places());
  workspace_memory_ = device.allocate(model_->workspace_bytes(), to_string(id) + ": workspace");
  model_->bind_workspace(workspace_memory_.data(), workspace_memory_.bytes());
  if (braid_) {
    second_ops_ = make_ops();
    second_workspace_memory_ = device.allocate(model_->workspace_bytes(), to_string(id) + ": second workspace");
    model_->bind_second(*second_ops_, second_workspace_memory_.data(), second_workspace_memory_.bytes());
  }

  make_reports();
  if (setup_.isolates_documents) {
    documents_memory_ = device.allocate(documents_bytes(setup_), to_string(id) + ": documents");
    documents_host_memory_ = device.allocate_host(documents_bytes(setup_), to_string(id) + ": documents");
  }
  activations_.emplace(ActivationPool::Setup{.model = *model_,
                                             .needs = setup_.needs,
                                             .microbatches = setup_.microbatches,
                                             .slices = setup_.slices,
                                             .compute = *stream_,
                                             .folder = setup_.offload.folder,
                                             .owner = to_string(id)});
  streams_.add(activations_->streams());
  links_.emplace(setup_.links, LinkSetup{&device, hidden_bytes(setup_, model_->hidden_shape()), to_string(id)});
  streams_.add(links_->streams());
  clock_ = std::make_unique<ActionClock>(device);
  if (on_gpu()) warm_up();
}

std::unique_ptr<Ops> RankCompute::make_ops() const {
  auto ops = on_gpu() ? make_cuda_ops(*stream_, setup_.numerics.deterministic) : make_cpu_ops(*stream_);
  return setup_.wrap_ops ? setup_.wrap_ops(std::move(ops), setup_.id) : std::move(ops);
}

void RankCompute::make_reports() {
  const std::int64_t losses = has_head() ? setup_.microbatches : 0;
  const bool scores = has_head() && setup_.config.classifies() && setup_.evaluation;
  const std::int64_t own_classes =
      scores ? RowSplit(setup_.config.outputs(), tensor_parallel().size()).count(tensor_parallel().rank()) : 0;
  const auto sums = static_cast<std::int64_t>(state_->sum_count());
  scores_ = {nullptr, {losses * setup_.shape.batch, own_classes}, DType::f64};
  reports_ = {nullptr, {scores_.elements() + losses + sums}, DType::f64};
  reports_memory_ = setup_.device->allocate(reports_.bytes(), to_string(setup_.id) + ": losses and norms");
  reports_.data = scores_.data = reports_memory_.data();
  reports_host_memory_ = setup_.device->allocate_host(reports_.bytes(), to_string(setup_.id) + ": losses and norms");
  losses_ = reports_.row_range(scores_.elements(), scores_.elements() + losses);
  square_sums_ = reports_.row_range(scores_.elements() + losses, reports_.elements());
}

std::pair<std::int64_t, std::int64_t> RankCompute::reported() const {
  if (evaluates()) return {0, scores_.elements() + losses_.elements()};
  return {scores_.elements(), reports_.elements()};
}

// Work may still be on its way after a failure; memory must outlive it.
RankCompute::~RankCompute() { wait_until_idle(); }

void RankCompute::wait_until_idle() noexcept {
  streams_.wait_until_idle();
  for (Group* group : {static_cast<Group*>(tensor_group_.get()), setup_.groups.data.get()})
    if (PiecewiseTransfer* transfer = group != nullptr ? group->in_pieces() : nullptr) transfer->wait_until_idle();
}

bool RankCompute::has_head() const {
  return std::any_of(setup_.chunks.begin(), setup_.chunks.end(),
                     [](const std::vector<Block>& blocks) { return blocks.back().kind == BlockKind::head; });
}

Lane RankCompute::make_lane(InputKind kind, int chunk) {
  lane_memory_.push_back(
      setup_.slot_memory(lane_bytes(setup_, kind, chunk, model_->hidden_shape()), to_string(setup_.id) + ": queue"));
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
  clock_->begin_step(*stream_);
  if (std::exchange(begun_early_, false)) {
    step_ = step;
  } else {
    open_step(step);
  }
  previewed_ = false;
  early_.clear();
  state_->begin_step(step.kind);
  model_->begin_step();
  if (setup_.fault && setup_.fault->step == step.step && !evaluates()) provoke(*setup_.fault);
}

void RankCompute::begin_early(const StepInfo& coming) {
  begun_early_ = true;
  open_step(coming);
}

void RankCompute::open_step(const StepInfo& step) {
  step_ = step;
  sequence_ = samples().size(step.step).sequence / setup_.context.size;
  if (sequence_ < setup_.slices)
    throw Error(ErrorKind::input, {"slices", std::to_string(setup_.slices)},
                "step " + std::to_string(step.step) + " has samples of " + std::to_string(sequence_) +
                    " tokens, fewer than that; use fewer slices");
  model_->set_sequence(slices().count(0));
  if (setup_.isolates_documents) load_documents(step.step, sequence_);
}

// O, which follows if the step is applied, writes what operations read anew.
void RankCompute::set_verdict(const Verdict& verdict) {
  verdict_ = verdict;
  if (!previewed_ || (verdict.apply && verdict.confirms)) return;
  for (const Action& forward : std::exchange(early_, {})) activations_->take_back(forward);
  clock_->forget_early();
  if (!verdict.apply) state_->restore();
}

// The host's copy is free: the step before has ended, or its forwards have, whose last copy this follows.
void RankCompute::load_documents(std::int64_t step, std::int64_t sequence) {
  const std::int64_t whole = sequence * setup_.context.size;
  const auto tokens = static_cast<std::size_t>(setup_.microbatches / setup_.slices * setup_.shape.batch * sequence);
  const bool origins = computes_parts(setup_);
  documents_ = {documents_memory_.data(), {origins ? 2 : 1, static_cast<std::int64_t>(tokens)}, DType::i32};
  const std::span all(static_cast<std::int32_t*>(documents_host_memory_.data()),
                      static_cast<std::size_t>(documents_.elements()));
  std::vector<std::int32_t> begins(static_cast<std::size_t>(setup_.shape.batch * whole));
  for (int piece = 0; piece < setup_.microbatches; ++piece) {
    if (piece % setup_.slices == 0) samples().read_documents({step, setup_.id.dp, piece / setup_.slices}, whole, begins);
    const auto [begin, end] = tokens_of(piece);
    const auto first = static_cast<std::size_t>(begin), count = static_cast<std::size_t>(end - begin);
    deal_documents({setup_.context, position_of(piece % setup_.slices)}, whole, begins,
                   {all.subspan(first, count), origins ? all.subspan(tokens + first, count) : std::span<std::int32_t>{}});
  }
  stream_->copy(documents_.data, all.data(), documents_.bytes());
}

std::pair<std::int64_t, std::int64_t> RankCompute::tokens_of(int piece) const {
  const int slice = piece % setup_.slices;
  const std::int64_t begin = setup_.shape.batch * (piece / setup_.slices * sequence_ + slices().begin(slice));
  return {begin, begin + setup_.shape.batch * slices().count(slice)};
}

void RankCompute::add_documents(int piece, ForwardArgs& forward) const {
  const auto [begin, end] = tokens_of(piece);
  const auto of_row = [&, begin = begin, end = end](std::int64_t row) {
    return documents_.row_range(row, row + 1).reshaped({documents_.cols()}).row_range(begin, end);
  };
  forward.documents = of_row(0);
  if (documents_.rows() > 1) forward.origins = of_row(1);
}

// Beside compute: what it waits for is between the streams.
void RankCompute::run_move(const Action& action) {
  Stream& stream = activations_->begin_move(action);
  clock_->start(stream, action);
  activations_->move(action);
  clock_->end(stream);
  clock_->collect();
}

void RankCompute::wait_for_inputs(const Launch& launch) {
  for (const auto& input : {launch.activation, launch.gradient, launch.target}) {
    if (input) wait_until_ready(*stream_, *input, static_cast<std::size_t>(setup_.lane));
  }
  if (schedules::is_compute(launch.action.kind)) model_->set_sequence(slices().count(launch.action.microbatch % setup_.slices));
}

RankCompute::Output RankCompute::begin_output(const Launch& launch) {
  if (!launch.output) return {};
  Lane& lane = launch.output->lanes[static_cast<std::size_t>(setup_.lane)];
  lane.tensor.shape = model_->hidden_shape();
  Link& link = links_->to(lane);
  return {&lane, &link, link.begin(*stream_, lane)};
}

void RankCompute::pass_on(const Launch& launch, const Output& output) {
  if (output.lane) output.link->send(*stream_, *output.lane);
  for (const auto& slot : launch.release) mark_free(*stream_, *slot, static_cast<std::size_t>(setup_.lane));
}

void RankCompute::run(const Launch& launch) {
  if (schedules::is_move(launch.action.kind)) return run_move(launch.action);
  wait_for_inputs(launch);
  const Output output = begin_output(launch);
  clock_->start(*stream_, launch.action, launch.early);
  if (launch.early && previewed_) early_.push_back(launch.action);
  if (schedules::is_compute(launch.action.kind)) {
    if (is_slow()) delay();
    run_compute(launch, output.target);
  } else {
    run_end_of_step(launch.action);
  }
  clock_->end(*stream_);
  pass_on(launch, output);
  clock_->collect();
}

// The clock's two actions follow each other: the second one's time is what is left of it after the end of the first.
void RankCompute::run_braid(const Launch& first, const Launch& second) {
  if (!braid_) return ComputeRank::run_braid(first, second);
  for (const Launch* launch : {&first, &second}) wait_for_inputs(*launch);
  const Output first_output = begin_output(first), second_output = begin_output(second);
  clock_->start(*stream_, first.action);
  for (int action = 0; action < 2 && is_slow(); ++action) delay();
  braid_->run(
      [&] {
        run_compute(first, first_output.target, true);
        clock_->end(*stream_);
        pass_on(first, first_output);
        clock_->start(*stream_, second.action);
      },
      [&] { run_compute(second, second_output.target); });
  clock_->end(*stream_);
  pass_on(second, second_output);
  clock_->collect();
}

std::vector<DeviceAction> RankCompute::trace() {
  clock_->collect();
  return clock_->actions();
}

GradientListener RankCompute::listener_of(const Action& action) {
  // Of the step's last microbatch the gradients are final as they come.
  GradientListener listener;
  const int place = schedules::backward_place(action.microbatch, setup_.slices);
  const bool last = state_->is_replicated() && setup_.same_order && place == setup_.microbatches - 1;
  if (last) listener.added = [this](const Tensor& dw) { state_->start_reduction(dw); };
  if (state_->shares_gradient_memory()) listener.opens = [this](std::size_t block) { state_->open_gradients(block); };
  if (state_->offloads_gradients()) listener.closes = [this, last](std::size_t block) { state_->close_gradients(block, last); };
  // W has no collectives, where a braid's other action would have its turn.
  if (braid_ && action.kind == ActionKind::weight_grad)
    listener.added = [this, added = std::move(listener.added)](const Tensor& dw) {
      if (added) added(dw);
      braid_->pass();
    };
  return listener;
}

void RankCompute::run_forward(const Launch& launch, const Tensor& output, ActivationSlot& slot, bool second) {
  const Action& action = launch.action;
  const auto lane = static_cast<std::size_t>(setup_.lane);
  const auto tensor = [lane](const SlotHandle& from) { return from ? from->lanes[lane].tensor : Tensor{}; };
  ForwardArgs forward{tensor(launch.activation), tensor(launch.target), output, {}, {}, {}};
  forward.second = second;
  if (!evaluates()) forward.draws = draws_of(action.microbatch / setup_.slices);
  // A step that begins early may turn out to have another loss scale.
  if (!evaluates() && !launch.early) forward.loss_scale = logits_scale();
  forward.slice = slice_of(action);
  if (documents_.data != nullptr) add_documents(action.microbatch, forward);
  if (launch.target) forward.loss_sum = losses_.row_range(action.microbatch, action.microbatch + 1);
  if (launch.target && evaluates() && scores_.elements() > 0)
    forward.scores = scores_.row_range(action.microbatch * setup_.shape.batch, (action.microbatch + 1) * setup_.shape.batch);
  model_->forward(action.chunk, forward, slot);
}

void RankCompute::run_compute(const Launch& launch, const Tensor& output, bool second) {
  const Action& action = launch.action;
  ActivationSlot& slot = activations_->take(action);
  if (action.kind == ActionKind::forward) {
    run_forward(launch, output, slot, second);
    return activations_->release(action, step_.kind);
  }
  const Tensor gradient = launch.gradient ? launch.gradient->lanes[static_cast<std::size_t>(setup_.lane)].tensor : Tensor{};
  const BackwardArgs backward{gradient, output, logits_scale()};
  model_->listen(listener_of(action));
  switch (action.kind) {
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
  model_->listen({});
  activations_->release(action, step_.kind);
}

std::optional<SliceArgs> RankCompute::slice_of(const Action& action) {
  if (setup_.slices == 1) return std::nullopt;
  const int slice = action.microbatch % setup_.slices;
  return SliceArgs{position_of(slice), slice == setup_.slices - 1, activations_->earlier_slices(action)};
}

// Samples are counted as Sampler deals them out.
DropoutDraws RankCompute::draws_of(int microbatch) const {
  const std::int64_t before = std::int64_t{setup_.id.dp} * (setup_.microbatches / setup_.slices) + microbatch;
  return {.seed = setup_.seed, .step = step_.step, .first_sample = before * setup_.shape.batch};
}

void RankCompute::run_end_of_step(const Action& action) {
  switch (action.kind) {
    case ActionKind::reduce_grads:
      state_->reduce(action.chunk);
      break;
    case ActionKind::sum_replicated:
      state_->sum_replicated(action.chunk);
      break;
    case ActionKind::sum_tied:
      state_->sum_tied();
      break;
    case ActionKind::norm:
      ending_ = step_;
      if (!evaluates()) state_->square_sums(square_sums_);
      copy_reports();
      break;
    case ActionKind::preview:
      previewed_ = true;
      state_->preview(static_cast<float>(ending_.learning_rate), static_cast<float>(1 / ending_.loss_scale));
      break;
    default:
      assert(verdict_.apply);  // a step that is skipped has no O
      state_->step(static_cast<float>(ending_.learning_rate), static_cast<float>(verdict_.grad_scale));
      break;
  }
}

void RankCompute::copy_reports() {
  const auto [begin, end] = reported();
  const Tensor wanted = reports_.row_range(begin, end);
  stream_->copy(static_cast<double*>(reports_host_memory_.data()) + begin, wanted.data, wanted.bytes());
}

void RankCompute::add_result(const Action& action, StageResult& result) const {
  if (action.kind != ActionKind::norm) return;
  const auto* const values = static_cast<const double*>(reports_host_memory_.data());
  const auto [begin, end] = reported();
  result.insert(result.end(), values + begin, values + end);
}

void RankCompute::fail(std::exception_ptr cause) {
  streams_.fail(cause);
  for (const auto& group : {setup_.groups.tensor, setup_.groups.context, setup_.groups.data, setup_.groups.tied}) {
    if (group) group->abort(cause);
  }
}

}  // namespace pipetrain
