#include "data/tokenizers/hugging_face_tokenizer.hpp"

#include <fmt/format.h>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "data/tokenizers/component.hpp"
#include "data/tokenizers/end_of_text.hpp"
#include "data/tokenizers/models.hpp"
#include "data/tokenizers/piece_tokenizer.hpp"
#include "data/tokenizers/pre_tokenizers.hpp"
#include "data/tokenizers/tokenizer_file.hpp"
#include "files/mapped_file.hpp"

namespace pipetrain {

namespace {

[[noreturn]] void fail_tokenizer(const std::string& file, const std::string& what) {
  throw Error(ErrorKind::input, fmt::format("{}: {}", file, what));
}

AddedToken read_added_token(const Json& value, const std::string& file) {
  const auto wrong = [&] {
    fail_tokenizer(file, "\"added_tokens\" holds what is no object with \"id\", \"content\" and true or false; " +
                             std::string(tokenizer_file_remedy));
  };
  if (!value.is_object()) wrong();
  AddedToken token;
  const Json *const content = value.find("content"), *const id = value.find("id");
  if (!content || !content->is_string() || !id || !id->is_unsigned()) wrong();
  token.content = content->as_string();
  if (id->as_uint64() >= static_cast<std::uint64_t>(Vocabulary::most_ids))
    fail_tokenizer(file, fmt::format("the id of the added token {} is above {}; {}", token.content, Vocabulary::most_ids - 1,
                                     tokenizer_file_remedy));
  token.id = static_cast<std::int32_t>(id->as_uint64());
  const auto flag = [&](const char* name, bool otherwise) {
    const Json* const found = value.find(name);
    if (!found) return otherwise;
    if (!found->is_boolean()) wrong();
    return found->as_bool();
  };
  token.single_word = flag("single_word", false);
  token.left_strip = flag("lstrip", false);
  token.right_strip = flag("rstrip", false);
  token.special = flag("special", false);
  token.normalized = flag("normalized", !token.special);
  return token;
}

std::vector<AddedToken> read_added_tokens(const Json& parts, const std::string& file) {
  std::vector<AddedToken> tokens;
  const Json* const list = parts.find("added_tokens");
  if (!list || list->is_null()) return tokens;
  if (!list->is_array()) fail_tokenizer(file, fmt::format("\"added_tokens\" is no array; {}", tokenizer_file_remedy));
  for (const Json& value : *list) tokens.push_back(read_added_token(value, file));
  return tokens;
}

void check_ids(const TokenizerParts& parts, const std::string& file) {
  const auto check = [&](std::int32_t id) {
    const bool added =
        std::any_of(parts.added.begin(), parts.added.end(), [id](const AddedToken& token) { return token.id == id; });
    if (!added && !parts.vocabulary->has(id))
      fail_tokenizer(file, fmt::format("post_processor: its token {} is neither in the vocabulary nor an added token; {}", id,
                                       tokenizer_file_remedy));
  };
  for (const std::int32_t id : parts.around.before) check(id);
  for (const std::int32_t id : parts.around.after) check(id);
}

}  // namespace

std::unique_ptr<Tokenizer> tokenizer_from_json(std::string_view text, const std::string& file, const std::string& end_name) {
  TokenizerFile read = read_tokenizer_file(text, file);
  const auto component = [&](const char* name) -> std::optional<Component> {
    const Json* const found = read.parts.find(name);
    if (!found || found->is_null()) return std::nullopt;
    return Component(file, name, *found);
  };
  TokenizerParts parts;
  parts.added = read_added_tokens(read.parts, file);
  if (const auto normalizer = component("normalizer")) parts.normalizers = make_normalizers(*normalizer);
  PreTokenizers splits;
  if (const auto pre_tokenizer = component("pre_tokenizer")) splits = make_pre_tokenizers(*pre_tokenizer);
  parts.pre_tokenizers = std::move(splits.steps);
  if (const auto post_processor = component("post_processor")) parts.around = make_surrounding_tokens(*post_processor);
  if (const auto decoder = component("decoder")) {
    parts.decoders = make_decoders(*decoder);
    parts.has_decoder = true;
  }
  const auto model = component("model");
  if (!model) fail_tokenizer(file, "it has no \"model\"; give a tokenizer.json of Hugging Face's library");
  parts.vocabulary = read.vocabulary;
  parts.model = make_model(*model, read, splits.byte_level);
  parts.byte_level = splits.byte_level;
  parts.content = checksum(text.data(), text.size());
  check_ids(parts, file);
  return make_tokenizer(std::move(parts), end_name);
}

std::unique_ptr<Tokenizer> tokenizer_from_merges(std::string_view vocabulary, std::string_view merges, const std::string& file,
                                                 const std::string& merges_file, const std::string& end_name) {
  TokenizerFile read;
  read.vocabulary = read_vocabulary_file(vocabulary, file);
  std::size_t line_number = 0;
  for (std::size_t at = 0; at < merges.size();) {
    const std::size_t end = std::min(merges.find('\n', at), merges.size());
    std::string_view line = merges.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    at = end + 1;
    ++line_number;
    if (line.empty() || line.starts_with("#version")) continue;
    if (!read.merges.add_line(line))
      fail_tokenizer(fmt::format("{}:{}", merges_file, line_number),
                     fmt::format("a merge is not two pieces with a space between; {}", tokenizer_file_remedy));
  }
  // What GPT-2's tokenizer is beside these two files.
  static const Json gpt2 = Json::object({{"pre_tokenizer", Json::object({{"type", "ByteLevel"}, {"add_prefix_space", false}})},
                                         {"decoder", Json::object({{"type", "ByteLevel"}})},
                                         {"model", Json::object({{"type", "BPE"}})}});
  TokenizerParts parts;
  parts.pre_tokenizers = make_pre_tokenizers(Component(file, "pre_tokenizer", gpt2.at("pre_tokenizer"))).steps;
  parts.decoders = make_decoders(Component(file, "decoder", gpt2.at("decoder")));
  parts.has_decoder = true;
  parts.vocabulary = read.vocabulary;
  parts.model = make_model(Component(merges_file, "model", gpt2.at("model")), read, true);
  if (const auto end = read.vocabulary->find("<|endoftext|>"))
    parts.added.push_back({.content = "<|endoftext|>", .id = *end, .special = true});
  Checksum content;
  content.add(vocabulary.data(), vocabulary.size());
  content.add(merges.data(), merges.size());
  parts.content = content.value();
  return make_tokenizer(std::move(parts), end_name);
}

std::unique_ptr<Tokenizer> open_tokenizer_json(const std::filesystem::path& path) {
  const MappedFile file(path);
  return tokenizer_from_json(file.bytes(), path.string(), read_end_name(path.parent_path()));
}

std::unique_ptr<Tokenizer> open_vocabulary_and_merges(const std::filesystem::path& vocabulary,
                                                      const std::filesystem::path& merges) {
  const MappedFile vocabulary_file(vocabulary), merges_file(merges);
  return tokenizer_from_merges(vocabulary_file.bytes(), merges_file.bytes(), vocabulary.string(), merges.string(),
                               read_end_name(vocabulary.parent_path()));
}

}  // namespace pipetrain
