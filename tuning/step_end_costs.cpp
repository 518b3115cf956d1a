#include "tuning/step_end_costs.hpp"

#include <algorithm>

namespace pipetrain {

double StepEndCosts::rounded_bytes() const {
  return request_.precision.rounds_weights() ? static_cast<double>(size_of(request_.precision.compute)) : 0;
}

// A ring sends everything twice, except the rank's own part.
double StepEndCosts::reduce_seconds(const Layout& layout, double trained, double experts) const {
  const int copies = layout.copies(), expert_copies = layout.expert_copies();
  if (copies == 1) return 0;
  const Compression compression = layout.compression(request_);
  if (compression.hosts > 0) return reduce_by_hosts(compression, layout, trained);
  // Gradients go to their owners, and return as sums or as new weights. With stage 3, the weights return when the next step
  // first gathers them, and no compute precedes that gather to hide it.
  const double sent = coded_bytes(compression.gradients, gradient_bytes);
  const double back = layout.zero.divides_states() ? coded_bytes(compression.weights, activation_bytes(request_)) : sent;
  const double moved = (trained - experts) * (copies - 1) / copies + experts * (expert_copies - 1) / expert_copies;
  const double bytes = moved * (sent + back);
  const LinkSpeed link = links_.replicas(layout);
  return bytes / link.rate + 2.0 * (copies - 1) * link.latency + coding_seconds(compression, trained, copies);
}

// Each replica of a host sums a share of the numbers in fp32 over the host's links, exchanges it with the other hosts in few
// bits, and passes the sums on.
double StepEndCosts::reduce_by_hosts(const Compression& compression, const Layout& layout, double trained) const {
  const int hosts = compression.hosts, sharers = layout.copies() / hosts;
  const double share = trained / sharers;
  const double inside = 2 * (trained - share) * gradient_bytes;
  const double between = 2 * share * (hosts - 1) / hosts * coded_bytes(compression.gradients, gradient_bytes);
  const LinkSpeed link = links_.replicas(layout);
  return inside / request_.speed.link_rate + 2.0 * (sharers - 1) * request_.speed.latency + between / link.rate +
         2.0 * (hosts - 1) * link.latency + coding_seconds(compression, share, hosts);
}

// To code gradients, and the sums of its own share, a replica reads them with their errors and writes new errors; it writes the
// sums that it decodes.
double StepEndCosts::coding_seconds(const Compression& compression, double coded, int parties) const {
  return compression.gradients == BlockCode::none
             ? 0
             : coded * (3 + 3.0 / parties + 1) * gradient_bytes / request_.speed.memory_rate;
}

// Two stages exchange their sums; one stage with both ends adds them in place: it reads two numbers and writes one.
double StepEndCosts::tied_seconds(const Layout& layout, const schedules::Placement& placement) const {
  const double bytes = static_cast<double>(request_.config.hidden * request_.config.vocabulary) * gradient_bytes / layout.tp;
  if (tied_sum_places(placement).size() == 1) return 3 * bytes / request_.speed.memory_rate;
  const LinkSpeed link = links_.stages(layout, 0, layout.pp - 1);
  return link.latency + bytes / link.rate;
}

// Covers the parameters that the stage steps. Offloaded gradients are fetched for it.
double StepEndCosts::norm_seconds(const HeldParameters& own) const {
  return std::max(own.trained * gradient_bytes / request_.speed.memory_rate,
                  own.leaving_gradients * gradient_bytes / request_.speed.offload_rate);
}

// A step of the optimizer multiplies matrices, and moves bytes: it reads weights, gradients and its states, and writes all but
// the gradients. Offloaded states and masters are fetched and stored meanwhile, both ways at once, and offloaded gradients are
// fetched; offloaded weights that operations read are stored, and fetched first where they have no masters.
double StepEndCosts::optimizer_seconds(const HeldParameters& own) const {
  const double kept = optimizer_.state_bytes, moved = 2 * kept + 3.0 * sizeof(float) + rounded_bytes();
  const double seconds = own.trained * (moved / request_.speed.memory_rate + optimizer_.flops / request_.speed.flops);
  const bool masters = rounded_bytes() > 0;
  const double states = request_.offload.optimizer_share() * (kept + (masters ? sizeof(float) : 0));
  const double operands = request_.offload.parameters ? activation_bytes(request_) : 0;
  const double in = own.trained * (states + (masters ? 0 : operands)) + own.leaving_gradients * gradient_bytes;
  return std::max(seconds, std::max(in, own.trained * (states + operands)) / request_.speed.offload_rate);
}

}  // namespace pipetrain
