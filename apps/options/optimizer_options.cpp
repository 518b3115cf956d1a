#include "apps/options/optimizer_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/optimizer/optimizer.hpp"

namespace pipetrain {

OptimizerSettings named_optimizer(const OptionValues& values) {
  const std::vector<std::string> names = optimizer_names();
  const auto choice = values.choice("optimizer", names);
  return choice ? default_settings(names[*choice]) : OptimizerSettings{};
}

OptimizerSettings read_optimizer(const OptionValues& values) {
  constexpr OptionValues::Range below_one{.minimum = 0, .has_maximum = true, .maximum = 1};
  OptimizerSettings optimizer = named_optimizer(values);
  if (values.given("adam-eps") && optimizer.eps == 0)
    values.fail("adam-eps", fmt::format("the optimizer {} has no epsilon; leave it out", optimizer.name));
  const auto read = [&](const char* name, const OptionValues::Range& range, float& setting) {
    if (const auto value = values.number(name, range)) setting = static_cast<float>(*value);
  };
  read("beta1", below_one, optimizer.beta1);
  read("beta2", below_one, optimizer.beta2);
  read("adam-eps", {0, true}, optimizer.eps);
  read("weight-decay", {}, optimizer.weight_decay);
  return optimizer;
}

std::string optimizer_choices() { return fmt::format("{}", fmt::join(optimizer_names(), "|")); }

std::string optimizer_default(float OptimizerSettings::*setting) {
  const float usual = OptimizerSettings{}.*setting;
  std::string text = fmt::format("{}", usual);
  for (const std::string& name : optimizer_names()) {
    const float own = default_settings(name).*setting;
    if (own != usual) text += own == 0 ? fmt::format("; {} has none", name) : fmt::format("; {} {}", name, own);
  }
  return text;
}

}  // namespace pipetrain
