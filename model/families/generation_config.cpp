#include "model/families/generation_config.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"

namespace pipetrain {

std::vector<std::int32_t> read_end_ids(const std::filesystem::path& folder, std::int64_t vocabulary) {
  const std::filesystem::path file = folder / "generation_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return {};
  constexpr std::size_t most = std::size_t{4} << 20;
  const Json all = parse_json(read_text(file, most), {file.string()});
  if (!all.is_object())
    throw Error(ErrorKind::input, fmt::format("{}: not a JSON object; correct the file, or copy it again", file.string()));
  const Json* const found = all.find("eos_token_id");
  if (!found || found->is_null()) return {};
  const Json list = found->is_array() ? *found : Json::array({*found});
  std::vector<std::int32_t> ids;
  for (const Json& id : list) {
    const auto number = id.whole();
    if (!number || *number < 0 || *number >= vocabulary)
      throw Error(ErrorKind::input, fmt::format("{}: eos_token_id: {} is no token id below the vocabulary's {}; correct it",
                                                file.string(), id.dump(), vocabulary));
    ids.push_back(static_cast<std::int32_t>(*number));
  }
  return ids;
}

}  // namespace pipetrain
