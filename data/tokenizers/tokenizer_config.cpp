#include "data/tokenizers/tokenizer_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "core/parsing.hpp"
#include "data/tokenizers/text/component.hpp"
#include "data/tokenizers/text/vocabulary.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"
#include "files/text_encoding.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

// The keys of named tokens, in the order in which transformers adds them.
constexpr const char* usual_names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                       "pad_token", "cls_token", "mask_token"};

constexpr const char* additional_key = "additional_special_tokens";

bool is_usual_name(const std::string& key) {
  return std::any_of(std::begin(usual_names), std::end(usual_names), [&](const char* name) { return key == name; });
}

// An object from a JSON file; empty if the file does not exist.
struct ObjectFile {
  std::string name;
  Json object = Json::object();

  explicit ObjectFile(const fs::path& path) : name(path.string()) {
    std::error_code ignored;
    if (!fs::exists(path, ignored)) return;
    constexpr std::size_t most = std::size_t{64} << 20;
    const std::string text = read_text(path, most);
    refuse_utf16(text, name);
    object = parse_json(text, {name});
    if (!object.is_object()) fail("not a JSON object");
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::input, fmt::format("{}: {}; {}", name, what, tokenizer_file_remedy));
  }
  const Json* find(const char* key) const {
    const Json* const found = object.find(key);
    return found && !found->is_null() ? found : nullptr;
  }
};

// Reads {"content": "<s>", "lstrip": false, ...}; `special` applies if the object does not say.
AddedToken token_of_object(const Json& value, bool special, const std::function<void()>& wrong) {
  const Json* const content = value.find("content");
  if (!content || !content->is_string()) wrong();
  const auto flag = [&](const char* key, bool otherwise) {
    const Json* const found = value.find(key);
    if (!found) return otherwise;
    if (!found->is_boolean()) wrong();
    return found->as_bool();
  };
  AddedToken token{.content = content->as_string()};
  token.special = flag("special", special);
  token.single_word = flag("single_word", false);
  token.left_strip = flag("lstrip", false);
  token.right_strip = flag("rstrip", false);
  token.normalized = flag("normalized", !token.special);
  return token;
}

// Collects the tokens of the three files.
class ConfigReader {
 public:
  ConfigReader(const fs::path& folder, const Json& otherwise)
      : config_(folder / "tokenizer_config.json"),
        map_(folder / "special_tokens_map.json"),
        added_(folder / "added_tokens.json") {
    result_.folder = folder;
    has_ids_ = config_.object.contains("added_tokens_decoder");
    for (const auto& [key, value] : otherwise.items()) put(usual_, key, token_of(key, value, config_));
  }

  TokenizerConfig read() {
    read_names(config_);
    read_extra(config_);
    if (has_ids_) {
      read_decoder();
    } else {
      read_names(map_);
      read_extra(map_);
      read_added();
    }
    finish_extra();
    gather_names();
    result_.settings = std::move(config_.object);
    return std::move(result_);
  }

 private:
  using Tokens = std::vector<std::pair<std::string, NamedToken>>;  // by key

  // Replaces a token of the same key.
  static void put(Tokens& tokens, const std::string& key, NamedToken token) {
    const auto same = std::find_if(tokens.begin(), tokens.end(), [&](const auto& known) { return known.first == key; });
    if (same != tokens.end()) {
      same->second = std::move(token);
    } else {
      tokens.emplace_back(key, std::move(token));
    }
  }

  NamedToken token_of(const std::string& key, const Json& value, const ObjectFile& file) const {
    const auto wrong = [&] { file.fail(fmt::format("\"{}\" is neither a string nor an object with \"content\"", key)); };
    if (value.is_string()) return {{.content = value.as_string(), .special = true}, {}, file.name};
    if (!value.is_object()) wrong();
    return {token_of_object(value, &file == &map_, wrong), {}, file.name, value.contains("normalized")};
  }

  // Reads "bos_token" and the like, also under a name of the model's own, such as "image_token".
  void read_names(const ObjectFile& file) {
    for (const auto& [key, value] : file.object.items(JsonOrder::as_added)) {
      if (!key.ends_with("_token")) continue;
      const bool is_text = value.is_string() && &file == &config_;
      if (is_usual_name(key)) {
        value.is_null() ? forget(key) : put(usual_, key, token_of(key, value, file));
      } else if (value.is_string() || value.contains("__type") || (&file == &map_ && value.is_object())) {
        put(is_text ? own_texts_ : own_objects_, key, token_of(key, value, file));
      }
    }
  }

  void forget(const std::string& key) {
    std::erase_if(usual_, [&](const auto& known) { return known.first == key; });
  }

  // "additional_special_tokens" is the older name of "extra_special_tokens" and counts only if there is no list of the latter.
  void read_extra(const ObjectFile& file) {
    const Json* const extra = file.find("extra_special_tokens");
    if (const Json* const additional = file.find(additional_key)) additional_ = {additional, &file};
    if (&file == &config_ && (!extra || extra->empty())) finish_extra();
    if (extra) add_extra("extra_special_tokens", *extra, file);
  }

  void finish_extra() {
    const auto [additional, file] = std::exchange(additional_, {});
    if (additional && !has_extra_) add_extra(additional_key, *additional, *file);
  }

  // Reads a list of tokens, or an object of names and tokens.
  void add_extra(const char* key, const Json& list, const ObjectFile& file) {
    for (const auto& [name, value] : list.items(JsonOrder::as_added)) put(own_texts_, name, token_of(key, value, file));
    if (list.is_object()) return;
    if (!list.is_array()) file.fail(fmt::format("\"{}\" is not an array of tokens", key));
    for (const Json& value : list) result_.extra.push_back(token_of(key, value, file));
    has_extra_ = true;
  }

  // Reads {"258": {"content": "<new>", ...}, ...}.
  void read_decoder() {
    const Json& decoder = config_.object.at("added_tokens_decoder");
    const auto wrong = [&] { config_.fail("\"added_tokens_decoder\" is not an object of ids and tokens with \"content\""); };
    if (!decoder.is_object()) wrong();
    for (const auto& [key, value] : decoder.items()) {
      if (!value.is_object()) wrong();
      number_token(key, token_of_object(value, false, wrong), config_);
      result_.numbered.back().says_normalized = value.contains("normalized");
    }
    sort_numbered();
  }

  void number_token(const std::string& key, AddedToken token, const ObjectFile& file) {
    const std::int32_t id = number_from<std::int32_t>(key).value_or(-1);
    if (id < 0 || id >= Vocabulary::most_ids)
      file.fail(fmt::format("the id of the added token {}, {}, is not an integer from 0 to {}", token.content, key,
                            Vocabulary::most_ids - 1));
    result_.numbered.push_back({std::move(token), id, file.name});
  }

  void sort_numbered() {
    std::stable_sort(result_.numbered.begin(), result_.numbered.end(),
                     [](const NamedToken& a, const NamedToken& b) { return *a.id < *b.id; });
  }

  // Reads {"<new>": 258, ...}.
  void read_added() {
    std::set<std::string> special;
    for (const auto& [key, named] : usual_) special.insert(named.token.content);
    for (const NamedToken& named : result_.extra) special.insert(named.token.content);
    for (const auto& [content, id] : added_.object.items()) {
      const bool is_special = special.contains(content);
      number_token(id.dump(), {.content = content, .normalized = !is_special, .special = is_special}, added_);
    }
    sort_numbered();
  }

  // Keeps the order in which transformers adds them.
  void gather_names() {
    for (const char* name : usual_names)
      for (const auto& [key, named] : usual_)
        if (key == name) result_.named.push_back(named);
    for (auto& [key, named] : own_texts_) put(own_objects_, key, std::move(named));
    for (const auto& [key, named] : own_objects_) result_.named.push_back(named);
    for (NamedToken& named : result_.named) named.make_special();
    name_for_templates();
    for (const auto& [key, named] : usual_) {
      if (key == "bos_token") result_.begin_name = named.token.content;
      if (key == "eos_token") result_.end_name = named.token.content;
    }
  }

  void name_for_templates() {
    Json& tokens = result_.special_tokens;
    for (const Tokens* list : {&usual_, &own_objects_})
      for (const auto& [key, named] : *list) tokens[key] = named.token.content;
    for (const NamedToken& named : result_.extra) tokens[additional_key].push_back(named.token.content);
  }

  ObjectFile config_, map_, added_;
  bool has_ids_ = false, has_extra_ = false;
  std::pair<const Json*, const ObjectFile*> additional_ = {};  // not added yet
  Tokens usual_, own_objects_, own_texts_;                     // transformers adds texts of tokenizer_config.json last
  TokenizerConfig result_;
};

}  // namespace

bool TokenizerConfig::flag(const char* key, bool otherwise) const {
  const Json* const value = settings.find(key);
  if (!value || value->is_null()) return otherwise;
  if (!value->is_boolean())
    throw Error(ErrorKind::input, fmt::format("{}: \"{}\" is neither true nor false; {}", file(), key, tokenizer_file_remedy));
  return value->as_bool();
}

TokenizerConfig read_tokenizer_config(const fs::path& folder, const Json& otherwise) {
  TokenizerConfig config = ConfigReader(folder, otherwise).read();
  if (config.flag("split_special_tokens", false))
    throw Error(ErrorKind::input,
                fmt::format("{}: \"split_special_tokens\" is not supported; give a tokenizer without it", config.file()));
  return config;
}

}  // namespace pipetrain
