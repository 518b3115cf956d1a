#include "apps/options/offload_options.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/parsing.hpp"

namespace pipetrain {

namespace {

constexpr double bytes_per_gib = std::int64_t{1} << 30;

bool is_auto(const RawOptions& options) {
  const auto offload = options.find("offload");
  return offload != options.end() && offload->second.words == std::vector<std::string>{"auto"};
}

}  // namespace

bool places_data(const OptionValues& values) { return values.text("offload") == "auto"; }

void forget_data_placement(const RawOptions& change, RawOptions& before) {
  const auto offload = change.find("offload");
  if (offload == change.end()) return;
  std::vector<std::string_view> data;
  for (const std::string& text : offload->second.words)
    for (const std::string_view word : split(text, ',')) data.push_back(word);
  const auto moves = [&](const char* word) { return std::find(data.begin(), data.end(), word) != data.end(); };
  if (!moves("optimizer")) before.erase("optimizer-offload-fraction");
  if (!moves("activations")) before.erase("activation-offload-fraction");
  if (moves("none")) before.erase("offload-to");
  if (moves("auto") || !is_auto(before)) return;
  for (const char* bound : {"memory", "offload-bandwidth", "offload-to"}) before.erase(bound);
}

std::optional<DataPlacement> read_data_placement(const OptionValues& values, DeviceKind kind, bool several) {
  if (!places_data(values)) {
    for (const char* option : {"memory", "offload-bandwidth"})
      if (values.given(option)) values.fail(option, "is for the choice of --offload auto; give that too, or leave it out");
    return {};
  }
  for (const char* fraction : {"optimizer-offload-fraction", "activation-offload-fraction"})
    if (values.given(fraction)) values.fail(fraction, "is chosen by --offload auto; leave it out");
  if (several) values.fail("offload", "in several processes is not built yet; run in one, or say what to offload");
  if (kind == DeviceKind::cpu && !values.given("offload-to"))
    values.fail("offload", "needs a disk, since a CPU's memory is the host's already; give --offload-to DIR");
  DataPlacement placement;
  if (const auto gibibytes = values.number("memory")) placement.memory_bytes = *gibibytes * bytes_per_gib;
  if (const auto gigabytes = values.number("offload-bandwidth")) placement.offload_rate = *gigabytes * 1e9;
  return placement;
}

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
  if (values.given("optimizer-offload-fraction") && !offload.optimizer)
    values.fail("optimizer-offload-fraction", "applies to --offload optimizer; give that too, or leave it out");
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
