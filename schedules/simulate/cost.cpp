#include "schedules/simulate/cost.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace pipetrain::schedules {

namespace {

void check_count(const char* what, std::size_t have, std::size_t want) {
  if (have != want)
    throw std::invalid_argument(std::string("costs give ") + std::to_string(have) + " " + what + ", the plan has " +
                                std::to_string(want));
}

void check_time(const std::string& what, double time, bool may_be_zero) {
  if (std::isfinite(time) && (time > 0 || (may_be_zero && time == 0))) return;
  throw std::invalid_argument(what + " takes " + std::to_string(time) + "; it must be " +
                              (may_be_zero ? "zero or more" : "more than zero") + " and finite");
}

}  // namespace

int edge_between(int a, int b, int stages) { return std::abs(a - b) == 1 ? std::min(a, b) : stages - 1; }

int edges_used(const Placement& placement) {
  int used = 0;
  for (int v = 0; v + 1 < placement.virtual_stages(); ++v) {
    const int from = placement.at(v).stage, to = placement.at(v + 1).stage;
    if (from != to) used = std::max(used, edge_between(from, to, placement.stages()) + 1);
  }
  return used;
}

Costs Costs::uniform(const Placement& placement, double forward, double input_grad, double weight_grad, double p2p) {
  const auto all = [&](double value) { return std::vector<double>(static_cast<std::size_t>(placement.stages()), value); };
  return per_stage(placement, all(forward), all(input_grad), all(weight_grad), p2p);
}

Costs Costs::per_stage(const Placement& placement, const std::vector<double>& forward, const std::vector<double>& input_grad,
                       const std::vector<double>& weight_grad, double p2p) {
  const auto stages = static_cast<std::size_t>(placement.stages());
  check_count("times of F", forward.size(), stages);
  check_count("times of I", input_grad.size(), stages);
  check_count("times of W", weight_grad.size(), stages);
  Costs costs;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    ChunkCost chunk;
    chunk.forward = forward[stage] / placement.chunks();
    chunk.input_grad = input_grad[stage] / placement.chunks();
    chunk.weight_grad = weight_grad[stage] / placement.chunks();
    costs.chunks.emplace_back(static_cast<std::size_t>(placement.chunks()), chunk);
  }
  for (int v = 0; v + 1 < placement.virtual_stages(); ++v)
    costs.links.push_back({placement.at(v).stage == placement.at(v + 1).stage ? 0 : p2p});
  return costs;
}

void Costs::set_edges(const Placement& placement, const std::vector<Link>& edges) {
  const int used = edges_used(placement);
  if (used > static_cast<int>(edges.size()))
    throw std::invalid_argument(std::to_string(edges.size()) + " edges between stages are given, and the plan uses " +
                                std::to_string(used) +
                                (used == placement.stages() ? ", the last one from the last stage back to the first" : ""));
  links.clear();
  for (int v = 0; v + 1 < placement.virtual_stages(); ++v) {
    const int from = placement.at(v).stage, to = placement.at(v + 1).stage;
    links.push_back(from == to ? Link{} : edges[static_cast<std::size_t>(edge_between(from, to, placement.stages()))]);
  }
}

namespace {

// Returns the share of slice s of n in a microbatch's time: an even share, except for attention, whose queries see the
// keys up to their own position: its share grows from 1 / n^2 by 2 / n^2 a slice.
double share_of(int slice, int slices, double attention) {
  return ((1 - attention) + attention * (2 * slice + 1) / slices) / slices;
}

}  // namespace

double Costs::of(int stage, const Action& action) const {
  const ChunkCost& chunk = chunks[static_cast<std::size_t>(stage)][static_cast<std::size_t>(action.chunk)];
  const auto share = [&](double attention) {
    return slices == 1 ? 1 : share_of(action.microbatch % slices, slices, attention);
  };
  switch (action.kind) {
    case ActionKind::forward:
      return chunk.forward * share(chunk.forward_attention);
    case ActionKind::backward:
      return chunk.input_grad * share(chunk.input_grad_attention) + chunk.weight_grad / slices;
    case ActionKind::input_grad:
      return chunk.input_grad * share(chunk.input_grad_attention);
    case ActionKind::weight_grad:
      return chunk.weight_grad / slices;
    case ActionKind::reduce_grads:
      return chunk.reduce_grads;
    case ActionKind::sum_replicated:
      return chunk.sum_replicated;
    case ActionKind::sum_tied:
      return chunk.sum_tied;
    case ActionKind::norm:
      return norm.empty() ? 0 : norm[static_cast<std::size_t>(stage)];
    case ActionKind::preview:  // it reads as much and writes less
    case ActionKind::optimizer:
      return optimizer.empty() ? 0 : optimizer[static_cast<std::size_t>(stage)];
    case ActionKind::offload:
      return chunk.offload;
    case ActionKind::reload:
      return chunk.reload;
    case ActionKind::custom:
      return custom.empty() ? 0 : custom[static_cast<std::size_t>(action.microbatch)];
  }
  return 0;
}

double Costs::transfer(int v) const {
  if (links.empty()) return 0;
  Link link = links[static_cast<std::size_t>(v)];
  link.bytes /= slices;
  return link.transfer();
}

double Costs::compute(int stage, int microbatches) const {
  double sum = 0;
  for (const ChunkCost& chunk : chunks[static_cast<std::size_t>(stage)])
    sum += chunk.forward + chunk.input_grad + chunk.weight_grad - 2 * chunk.communication;
  return sum * microbatches / slices;
}

Costs of_slices(Costs costs, int slices) {
  costs.slices = slices;
  for (auto& stage : costs.chunks)
    for (ChunkCost& chunk : stage)
      for (double* const of_piece : {&chunk.forward, &chunk.input_grad, &chunk.weight_grad}) *of_piece *= slices;
  for (Link& link : costs.links) link.bytes *= slices;
  return costs;
}

void check_costs(const Costs& costs, const Placement& placement) {
  const auto stages = static_cast<std::size_t>(placement.stages());
  check_count("stages", costs.chunks.size(), stages);
  for (std::size_t stage = 0; stage < stages; ++stage) {
    check_count("chunks a stage", costs.chunks[stage].size(), static_cast<std::size_t>(placement.chunks()));
    const std::string on = " on stage " + std::to_string(stage);
    for (const ChunkCost& chunk : costs.chunks[stage]) {
      check_time("F" + on, chunk.forward, false);
      check_time("I" + on, chunk.input_grad, false);
      check_time("W" + on, chunk.weight_grad, false);
      check_time("the tensor-parallel communication of F and I" + on, chunk.communication, true);
      if (chunk.communication > std::min(chunk.forward, chunk.input_grad) || chunk.collectives < 1)
        throw std::invalid_argument("F and I" + on +
                                    " take less time than their tensor-parallel communication, or that has no collectives");
      check_time("R" + on, chunk.reduce_grads, true);
      check_time("S" + on, chunk.sum_replicated, true);
      check_time("T" + on, chunk.sum_tied, true);
      check_time("the sum of gradients during the backward" + on, chunk.overlapped_reduce, true);
      check_time("the transfer of new weights" + on, chunk.publish_weights, true);
      check_time("P" + on, chunk.offload, true);
      check_time("G" + on, chunk.reload, true);
    }
  }
  if (!costs.norm.empty()) check_count("times of N", costs.norm.size(), stages);
  if (!costs.optimizer.empty()) check_count("times of O", costs.optimizer.size(), stages);
  for (const double time : costs.norm) check_time("N", time, true);
  for (const double time : costs.optimizer) check_time("O", time, true);
  for (const double time : costs.custom) check_time("X", time, true);
  check_time("the verdict", costs.verdict, true);
  if (!costs.links.empty()) check_count("links", costs.links.size(), static_cast<std::size_t>(placement.virtual_stages() - 1));
  for (int v = 0; v < static_cast<int>(costs.links.size()); ++v)
    check_time("a message between virtual stages " + std::to_string(v) + " and " + std::to_string(v + 1), costs.transfer(v),
               true);
}

}  // namespace pipetrain::schedules
