#include "model/weights/named_random_weights.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "model/parameters/parameter_slice.hpp"

namespace pipetrain::test {

void NamedRandomWeights::load(const Parameter& parameter, float* out) const {
  std::mt19937_64 random(std::hash<std::string>{}(parameter.name));
  const auto deviation = [&] {
    if (parameter.full.rank() == 1) return 0.1F;
    for (const char* table : {"embed", "wte", "wpe"}) {
      if (parameter.name.find(table) != std::string::npos) return 0.5F;
    }
    return 1.0F / std::sqrt(static_cast<float>(parameter.full[parameter.transposed ? 0 : 1]));
  };
  const bool norm = parameter.full.rank() == 1 && parameter.name.ends_with(".weight");
  std::normal_distribution<float> normal(norm ? 1.0F : 0.0F, deviation());
  std::vector<float> full(static_cast<std::size_t>(parameter.full.elements()));
  for (float& value : full) value = normal(random);
  read_slice(parameter, out,
             [&](std::int64_t first, std::int64_t count, float* to) { std::copy_n(full.begin() + first, count, to); });
}

}  // namespace pipetrain::test
