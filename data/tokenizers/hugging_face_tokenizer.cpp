#include "data/tokenizers/hugging_face_tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "data/tokenizers/added_vocabulary.hpp"
#include "data/tokenizers/models/models.hpp"
#include "data/tokenizers/piece_tokenizer.hpp"
#include "data/tokenizers/text/component.hpp"
#include "data/tokenizers/text/tokenizer_file.hpp"
#include "data/tokenizers/transforms/pre_tokenizers.hpp"
#include "files/mapped_file.hpp"
#include "files/text_encoding.hpp"

namespace pipetrain {

namespace {

[[noreturn]] void fail_tokenizer(const std::string& file, const std::string& what) {
  throw Error(ErrorKind::input, fmt::format("{}: {}", file, what));
}

AddedToken read_added_token(const Json& value, const std::string& file) {
  const auto wrong = [&] {
    fail_tokenizer(file, "\"added_tokens\" has an element that is not an object with \"id\", \"content\" and true or false; " +
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

AddedVocabulary read_added_tokens(const TokenizerFile& read, const std::string& file) {
  AddedVocabulary tokens(read.vocabulary);
  const Json* const list = read.parts.find("added_tokens");
  if (!list || list->is_null()) return tokens;
  if (!list->is_array()) fail_tokenizer(file, fmt::format("\"added_tokens\" is not an array; {}", tokenizer_file_remedy));
  for (const Json& value : *list) {
    AddedToken token = read_added_token(value, file);
    const std::int32_t id = token.id;
    tokens.add(std::move(token), id, file);
  }
  return tokens;
}

// Adds the tokens that the files next to the tokenizer name, as transformers does, and returns a checksum of the
// changes; 0: no changes.
std::uint64_t add_named_tokens(const TokenizerConfig& config, AddedVocabulary& tokens) {
  Checksum changes;
  bool is_changed = false;
  const auto add = [&](const NamedToken& named) {
    if (named.token.content.empty() || tokens.has(named.token)) return;
    tokens.add(named.token, named.id, named.file);
    const AddedToken& token = named.token;
    changes.add(token.content.data(), token.content.size() + 1);
    for (const bool flag : {token.single_word, token.left_strip, token.right_strip, token.normalized, token.special})
      changes.add(&flag, sizeof flag);
    is_changed = true;
  };
  std::set<std::string> known, special;
  for (const NamedToken& named : config.named) special.insert(named.token.content);
  for (NamedToken named : config.numbered) {
    if (tokens.has(named.token)) {
      tokens.add(named.token, named.id, named.file);  // compares its id
      continue;
    }
    if (special.contains(named.token.content)) named.make_special();
    add(named);
  }
  for (const AddedToken& token : tokens.tokens()) known.insert(token.content);
  for (const auto* list : {&config.named, &config.extra})
    for (const NamedToken& named : *list)
      if (!known.contains(named.token.content)) add(named);
  return is_changed ? changes.value() : 0;
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

std::unique_ptr<Tokenizer> tokenizer_from_json(std::string_view text, const std::string& file, TokenizerConfig config) {
  refuse_utf16(text, file);
  TokenizerFile read = read_tokenizer_file(text, file);
  const auto component = [&](const char* name) -> std::optional<Component> {
    const Json* const found = read.parts.find(name);
    if (!found || found->is_null()) return std::nullopt;
    return Component(file, name, *found);
  };
  TokenizerParts parts;
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
  AddedVocabulary added = read_added_tokens(read, file);
  parts.own_added = added.tokens().size();
  parts.content = checksum(text.data(), text.size()) ^ add_named_tokens(config, added);
  parts.added = added.tokens();
  parts.config = std::move(config);
  check_ids(parts, file);
  return make_tokenizer(std::move(parts));
}

namespace {

MergeList read_merges(std::string_view merges, const std::string& file) {
  refuse_utf16(merges, file);
  MergeList list;
  std::size_t line_number = 0;
  for (std::size_t at = 0; at < merges.size();) {
    const std::size_t end = std::min(merges.find('\n', at), merges.size());
    std::string_view line = merges.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    at = end + 1;
    ++line_number;
    if (line.empty() || line.starts_with("#version")) continue;
    if (!list.add_line(line))
      fail_tokenizer(fmt::format("{}:{}", file, line_number),
                     fmt::format("a merge is not two pieces with a space between; {}", tokenizer_file_remedy));
  }
  return list;
}

// Returns the ids of the tokens before and after a text, if tokenizer_config.json names them.
SurroundingTokens surrounding_tokens(const TokenizerConfig& config, const AddedVocabulary& added) {
  SurroundingTokens around;
  const auto put = [&](const char* flag, const std::string& name, std::vector<std::int32_t>& ids) {
    if (!config.flag(flag, false)) return;
    for (const AddedToken& token : added.tokens())
      if (token.content == name) return ids.push_back(token.id);
  };
  put("add_bos_token", config.begin_name, around.before);
  put("add_eos_token", config.end_name, around.after);
  return around;
}

// Other tokenizers that have these two files split texts differently.
void require_gpt2(const TokenizerConfig& config) {
  const Json* const name = config.settings.find("tokenizer_class");
  if (!name || name->is_null() || *name == "GPT2Tokenizer" || *name == "GPT2TokenizerFast") return;
  fail_tokenizer(config.file(),
                 fmt::format("a {} of vocab.json and merges.txt is not supported; give its tokenizer.json, or the "
                             "files of a GPT2Tokenizer",
                             name->is_string() ? name->as_string() : name->dump()));
}

}  // namespace

std::unique_ptr<Tokenizer> tokenizer_from_merges(const MergesFiles& files, TokenizerConfig config) {
  require_gpt2(config);
  refuse_utf16(files.vocabulary, files.vocabulary_name);
  TokenizerFile read;
  read.vocabulary = read_vocabulary_file(files.vocabulary, files.vocabulary_name);
  read.merges = read_merges(files.merges, files.merges_name);
  read.has_merges = true;
  // Checks the settings that GPT-2's tokenizer has besides these two files.
  const bool prefix_space = config.flag("add_prefix_space", false);
  const Json gpt2 = Json::object({{"pre_tokenizer", Json::object({{"type", "ByteLevel"}, {"add_prefix_space", prefix_space}})},
                                  {"decoder", Json::object({{"type", "ByteLevel"}})},
                                  {"model", Json::object({{"type", "BPE"}})}});
  TokenizerParts parts;
  parts.pre_tokenizers = make_pre_tokenizers(Component(files.vocabulary_name, "pre_tokenizer", gpt2.at("pre_tokenizer"))).steps;
  parts.decoders = make_decoders(Component(files.vocabulary_name, "decoder", gpt2.at("decoder")));
  parts.has_decoder = true;
  parts.vocabulary = read.vocabulary;
  parts.model = make_model(Component(files.merges_name, "model", gpt2.at("model")), read, true);
  parts.byte_level = true;
  AddedVocabulary added(read.vocabulary);
  const std::uint64_t named = add_named_tokens(config, added);
  parts.around = surrounding_tokens(config, added);
  parts.added = added.tokens();
  parts.config = std::move(config);
  Checksum content;
  content.add(files.vocabulary.data(), files.vocabulary.size());
  content.add(files.merges.data(), files.merges.size());
  const bool is_usual = parts.added.size() == 1 && parts.added[0].content == "<|endoftext|>" && !parts.added[0].normalized;
  if (!is_usual) content.add(named);
  if (prefix_space || !parts.around.before.empty() || !parts.around.after.empty())
    for (const char* flag : {"add_prefix_space", "add_bos_token", "add_eos_token"})
      content.add(std::uint64_t{parts.config.flag(flag, false)});
  parts.content = content.value();
  return make_tokenizer(std::move(parts));
}

std::unique_ptr<Tokenizer> open_tokenizer_json(const std::filesystem::path& path) {
  const MappedFile file(path);
  return tokenizer_from_json(file.bytes(), path.string(), read_tokenizer_config(path.parent_path()));
}

std::unique_ptr<Tokenizer> open_vocabulary_and_merges(const std::filesystem::path& vocabulary,
                                                      const std::filesystem::path& merges) {
  const MappedFile vocabulary_file(vocabulary), merges_file(merges);
  const char* const usual = "<|endoftext|>";
  const Json gpt2 = Json::object({{"bos_token", usual}, {"eos_token", usual}, {"unk_token", usual}});
  return tokenizer_from_merges({vocabulary_file.bytes(), merges_file.bytes(), vocabulary.string(), merges.string()},
                               read_tokenizer_config(vocabulary.parent_path(), gpt2));
}

}  // namespace pipetrain
