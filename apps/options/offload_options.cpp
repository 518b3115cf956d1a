#include "apps/options/offload_options.hpp"

#include <string>
#include <string_view>
#include <vector>

#include "core/parsing.hpp"

namespace pipetrain {

void read_offload(const OptionValues& values, Offload& offload) {
  const std::string text = values.text("offload").value_or("none");
  const std::vector<std::string_view> words = split(text, ',');
  bool none = false;
  for (const std::string_view word : words) {
    if (word == "none" || word == "off") {
      none = true;
    } else if (word == "optimizer") {
      offload.optimizer = true;
    } else if (word == "activations") {
      offload.activations = true;
    } else if (word == "parameters") {
      offload.parameters = true;
    } else if (word == "gradients") {
      offload.gradients = true;
    } else {
      values.fail("offload",
                  "must be none, or names among optimizer, parameters, gradients and activations, with commas between");
    }
  }
  if (none && words.size() > 1) values.fail("offload", "none cannot be combined with other names; leave one out");
  if (values.given("activation-offload-fraction") && !offload.activations)
    values.fail("activation-offload-fraction", "applies to --offload activations; give that too, or leave it out");
  if (values.given("offload-to")) {
    if (!offload.any())
      values.fail(
          "offload-to",
          "there is nothing to put there; give --offload optimizer, parameters, gradients or activations too, or leave it out");
    offload.folder = values.text("offload-to").value_or("");
  }
}

}  // namespace pipetrain
