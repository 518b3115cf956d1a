#include "apps/options/combined_options.hpp"

#include "actors/training/job/combinations.hpp"

namespace pipetrain {

void refuse_combinations(const OptionValues& values, const UsedFeatures& used) {
  if (const Combination* met = find_refused(used)) values.fail(used.settings.at(met->feature).name, met->why);
}

}  // namespace pipetrain
