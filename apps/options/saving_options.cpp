#include "apps/options/saving_options.hpp"

#include <charconv>
#include <filesystem>
#include <string_view>
#include <utility>

#include "apps/options/option_files.hpp"
#include "apps/options/train_options.hpp"
#include "model/weights/llmc_model.hpp"
#include "model/weights/stored_model.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

// Parses a size such as "500MB", "5 GB", "2GiB" or "1000000".
std::optional<std::uint64_t> bytes_in(std::string_view text) {
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc()) return {};
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  constexpr std::pair<std::string_view, std::uint64_t> units[] = {{"", 1},
                                                                  {"B", 1},
                                                                  {"KB", 1'000},
                                                                  {"MB", 1'000'000},
                                                                  {"GB", 1'000'000'000},
                                                                  {"KiB", std::uint64_t{1} << 10},
                                                                  {"MiB", std::uint64_t{1} << 20},
                                                                  {"GiB", std::uint64_t{1} << 30}};
  for (const auto& [name, bytes] : units) {
    std::uint64_t product = 0;
    if (unit == name && !__builtin_mul_overflow(count, bytes, &product) && product > 0) return product;
  }
  return {};
}

// Throws Error(input) if --load names another program's file or checkpoint: at most, that holds initial weights.
void refuse_foreign(const OptionValues& values, const fs::path& load) {
  if (is_llmc_model(load))
    values.fail("load", "is a model file of llm.c, which holds weights but no state to continue from; begin from it: --model");
  if (const auto foreign = foreign_checkpoint(load)) values.fail("load", *foreign + ": --model");
}

}  // namespace

ModelFolderOptions read_model_folder_options(const OptionValues& values) {
  ModelFolderOptions options;
  constexpr SavedType types[] = {SavedType::fp32, SavedType::bf16, SavedType::fp16};
  options.type = types[values.choice("save-dtype").value_or(0)];
  if (const auto size = values.text("save-shard-size")) {
    const auto bytes = bytes_in(*size);
    if (!bytes)
      values.fail("save-shard-size", "is no size of a file; give bytes, or a number with KB, MB, GB, KiB, MiB or GiB");
    options.shard_bytes = *bytes;
  }
  return options;
}

void read_saving(const OptionValues& values, SavingSettings& saving) {
  saving.folder = output_folder(values, "save");
  if (values.given("save-keep-every") && !values.given("save-keep"))
    values.fail("save-keep-every", "needs --save-keep K, without which all are kept; give it");
  for (const char* name : {"save-interval", "save-keep", "save-keep-every", "save-dtype", "save-shard-size", "resume"})
    if (values.given(name) && !saving.folder && (name != std::string("resume") || saving.resume))
      values.fail(name, "needs --save DIR, the folder of the checkpoints; give it");
  saving.shard_bytes = read_model_folder_options(values).shard_bytes;
  if (const auto load = values.text("load")) {
    refuse_unreadable(values, "load");
    refuse_foreign(values, *load);
    std::error_code ignored;
    if (!fs::is_directory(*load, ignored)) values.fail("load", "there is no such checkpoint folder; check the path");
    if (saving.resume) values.fail("load", "--resume is given too; keep one of them");
    saving.load = *load;
  }
}

}  // namespace pipetrain
