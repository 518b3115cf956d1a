#include "apps/options/offload_options.hpp"

#include <sstream>
#include <string>

namespace pipetrain {

void read_offload(const OptionValues& values, Offload& offload) {
  std::istringstream words(values.text("offload").value_or("none"));
  std::size_t count = 0;
  bool none = false;
  for (std::string word; std::getline(words, word, ',');) {
    ++count;
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
                  "must be none, or of optimizer, parameters, gradients and activations those to offload, with commas between");
    }
  }
  if (none && count > 1) values.fail("offload", "none goes with nothing else; leave one out");
  if (values.given("activation-offload-fraction") && !offload.activations)
    values.fail("activation-offload-fraction", "is of --offload activations; give that too, or leave it out");
  if (values.given("offload-to")) {
    if (!offload.any())
      values.fail(
          "offload-to",
          "there is nothing to put there; give --offload optimizer, parameters, gradients or activations too, or leave it out");
    offload.folder = values.text("offload-to").value_or("");
  }
}

}  // namespace pipetrain
