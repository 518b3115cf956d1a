#include "apps/options/cut_option.hpp"

#include <fmt/format.h>

#include "core/counted.hpp"
#include "core/parsing.hpp"

namespace pipetrain {
namespace {

constexpr std::int64_t most_blocks = 2'000'000;  // of a million layers

std::int64_t read_count(const OptionValues& values, std::string_view word) {
  const auto count = number_from<std::int64_t>(word);
  if (!count || *count < 0 || *count > most_blocks)
    values.fail("cut", fmt::format("\"{}\" is no number of blocks; give one for each virtual stage, such as 5,7,8,4", word));
  if (*count == 0) values.fail("cut", "leaves a virtual stage without a block; give each at least 1, or use fewer stages");
  return *count;
}

}  // namespace

Cut read_cut(const OptionValues& values, const std::optional<StageCounts>& stages) {
  Cut cut;
  const auto text = values.text("cut");
  if (!text) return cut;
  for (const std::string_view word : split(*text, ',')) cut.push_back(read_count(values, word));
  if (stages && std::ssize(cut) != std::int64_t{stages->pp} * stages->chunks)
    values.fail("cut", fmt::format("cuts the model into {}, and pp {} x chunks {} is {}; give one number for each",
                                   counted(std::ssize(cut), "part"), stages->pp, stages->chunks,
                                   counted(std::int64_t{stages->pp} * stages->chunks, "virtual stage")));
  return cut;
}

}  // namespace pipetrain
