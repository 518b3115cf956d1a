#include "tuning/profiled_scales.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/training/records/profile_layout.hpp"
#include "core/error.hpp"
#include "model/config/mode_names.hpp"
#include "tuning/layout_costs.hpp"

namespace pipetrain {
namespace {

// A kind of blocks that the fit to the stages gives no time at all still takes some.
constexpr double least_scale = 1e-3;

void check(const LayoutRequest& request, const Profile& profile) {
  const auto fail = [](const std::string& why) { throw Error(ErrorKind::input, {"costs", ""}, why); };
  if (!profile.is_of(request.config))
    fail(fmt::format("the profile is of another model, {}; profile a run of the same model", profile.model));
  if (profile.sequence != request.sequence)
    fail(fmt::format("the profile is of sequences of {} tokens, and these layouts of {}; give seq-len {}", profile.sequence,
                     request.sequence, profile.sequence));
  const DeviceKind kind = profile.settings.devices.kind;
  if (kind != request.device)
    fail(fmt::format("the profile is of {}, and these layouts of {}", name_of(kind), name_of(request.device)));
  const std::string precision = numbers_name(request.precision), measured = numbers_name(profile.settings.numerics.precision);
  if (profile.has_settings && measured != precision)
    fail(fmt::format("the profile is of a run in {}, and these layouts compute in {}; give precision {}", measured, precision,
                     measured));
}

// Returns the parts of the profile's layout that the times of blocks depend on.
Layout layout_of(const Profile& profile) {
  Layout layout;
  layout.pp = profile.pp;
  layout.tp = profile.tp;
  layout.dp = profile.dp;
  layout.cp = profile.settings.layout.cp;
  layout.ep = profile.settings.layout.ep;
  layout.chunks = profile.chunks;
  layout.microbatch = profile.microbatch;
  layout.microbatches = profile.microbatches;
  layout.zero.stage = profile.settings.zero.stage;
  layout.recompute = profile.settings.numerics.recompute;
  return layout;
}

}  // namespace

std::array<BlockScale, block_kinds> profiled_scales(const LayoutRequest& request, const Profile& profile) {
  check(request, profile);
  LayoutRequest plain = request;
  plain.scales = {};
  const LayoutCosts costs(plain);
  const Layout layout = layout_of(profile);
  const auto measured = measured_blocks(profile);
  std::array<BlockScale, block_kinds> scales;
  const auto ratio = [](double is, double estimated) { return estimated > 0 ? std::max(is / estimated, least_scale) : 1; };
  for (const BlockCount& counted : block_counts(request.config)) {
    const auto kind = static_cast<std::size_t>(counted.block.kind);
    const auto times = costs.block_times(counted.block, layout);
    scales[kind] = {ratio(measured[kind].forward, times.forward), ratio(measured[kind].input_grad, times.input_grad),
                    ratio(measured[kind].weight_grad, times.weight_grad)};
  }
  return scales;
}

}  // namespace pipetrain
