#include "apps/foreign/foreign_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>

#include "apps/foreign/foreign_keys.hpp"
#include "apps/foreign/foreign_names.hpp"
#include "core/error.hpp"
#include "schedules/builders/builders.hpp"

namespace pipetrain {

namespace {

[[noreturn]] void refuse(const ForeignSetting& setting, const std::string& why) {
  throw Error(ErrorKind::input, fmt::format("{}: {}: {}", setting.place, setting.key, why));
}

// Writes a value as options take it: "on", "8", "1e-4".
std::string setting_word(const ForeignSetting& setting, const Json& value) {
  if (value.is_string()) return value.as_string();
  if (value.is_boolean()) return value.as_bool() ? "on" : "off";
  if (value.is_real()) return fmt::format("{}", value.as_double());
  if (value.is_number()) return value.dump();
  if (value.is_array() && value.empty()) return "[]";
  refuse(setting, "has no single value; write a string, a number, true or false");
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::vector<std::string> words_in(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool matches(std::string_view pattern, std::string_view key) {
  const std::size_t star = pattern.find('*');
  if (star == pattern.npos) return pattern == key;
  const std::string_view begin = pattern.substr(0, star), end = pattern.substr(star + 1);
  return key.size() >= begin.size() + end.size() && key.starts_with(begin) && key.ends_with(end);
}

std::span<const ForeignKey> keys_of(ForeignSystem system) {
  if (system == ForeignSystem::deepspeed) return deepspeed_keys();
  return system == ForeignSystem::torchtitan ? torchtitan_keys() : megatron_keys();
}

// The settings of a file while they are translated.
class ForeignFile {
 public:
  ForeignFile(const OptionRows& table, ForeignSystem system, std::vector<ForeignSetting> settings)
      : table_(table), system_(system), settings_(std::move(settings)) {}

  RawOptions options() {
    std::erase_if(settings_, [](const ForeignSetting& each) { return each.value.is_null() || each.value == "auto"; });
    drop_disabled();
    if (system_ == ForeignSystem::torchtitan) settle_torchtitan();
    if (system_ == ForeignSystem::megatron) settle_megatron();
    for (const ForeignSetting& setting : settings_) take(setting);
    options_.merge(fallbacks_);
    return std::move(options_);
  }

 private:
  ForeignSetting* find(std::string_view key) {
    const auto found = std::find_if(settings_.begin(), settings_.end(), [&](const auto& each) { return each.key == key; });
    return found == settings_.end() ? nullptr : &*found;
  }
  bool is_on(std::string_view key) { return find(key) && find(key)->value == true; }
  void drop(std::string_view pattern) {
    std::erase_if(settings_, [&](const auto& each) { return matches(pattern, each.key); });
  }
  std::optional<double> number(std::string_view key) {
    const ForeignSetting* setting = find(key);
    return setting && setting->value.is_number() ? std::optional(setting->value.as_double()) : std::nullopt;
  }

  // {"enabled": false} turns off its section. A section that must be turned on is off by default.
  void drop_disabled() {
    std::vector<std::string> off;
    for (const ForeignSetting& setting : settings_) {
      const std::size_t dot = setting.key.rfind('.');
      const std::string last = setting.key.substr(dot == setting.key.npos ? 0 : dot + 1);
      if (dot != setting.key.npos && setting.value == false && (last == "enabled" || last == "enable"))
        off.push_back(setting.key.substr(0, dot + 1));
    }
    for (const char* section : {"tensorboard."})
      if (system_ == ForeignSystem::deepspeed && !is_on(std::string(section) + "enabled")) off.emplace_back(section);
    if (system_ == ForeignSystem::torchtitan && !is_on("validation.enable")) off.emplace_back("validation.");
    if (system_ == ForeignSystem::torchtitan && !is_on("metrics.enable_tensorboard")) drop("metrics.save_tb_folder");
    if (system_ == ForeignSystem::torchtitan && !is_on("checkpoint.enable") && !is_on("checkpoint.enable_checkpoint"))
      off.emplace_back("checkpoint.");
    std::erase_if(settings_, [&](const ForeignSetting& setting) {
      const bool says_so = setting.key == "bf16.enabled" || setting.key == "bfloat16.enabled";
      return !says_so &&
             std::any_of(off.begin(), off.end(), [&](const std::string& section) { return setting.key.starts_with(section); });
    });
  }

  // Completes flavours to names; moves folders into job.dump_folder; divides a rank's batch over its microbatches.
  void settle_torchtitan() {
    ForeignSetting *name = find("model.name"), *flavor = find("model.flavor");
    if (name && flavor && name->value.is_string() && flavor->value.is_string())
      name->value = lower(name->value.as_string() + "-" + flavor->value.as_string());
    drop("model.flavor");
    if (const ForeignSetting* base = find("job.dump_folder"); base && base->value.is_string())
      for (const char* key : {"checkpoint.folder", "metrics.save_tb_folder"})
        if (ForeignSetting* folder = find(key); folder && folder->value.is_string())
          folder->value = (std::filesystem::path(base->value.as_string()) / folder->value.as_string()).string();
    if (number("training.global_batch_size") == -1.0) drop("training.global_batch_size");
    if (number("checkpoint.keep_latest_k") == 0.0) drop("checkpoint.keep_latest_k");
    if (ForeignSetting* csv = find("parallelism.pipeline_parallel_schedule_csv"); csv && csv->value == "") drop(csv->key);
    if (ForeignSetting* schedule = find("parallelism.pipeline_parallel_schedule"); schedule && schedule->value.is_string())
      schedule->value = our_schedule(schedule->value.as_string()).value_or(schedule->value.as_string());
    settle_torchtitan_rate();
    settle_torchtitan_batch();
    settle_torchtitan_replicas();
  }
  // Fully sharded replicas correspond to --zero 3, or to --zero 2 if parameters stay gathered after the forward.
  void settle_torchtitan_replicas() {
    ForeignSetting* shards = find("parallelism.data_parallel_shard_degree");
    if (!shards) return;
    const auto degree = shards->value.whole();
    if (!degree || *degree < 1) refuse(*shards, "must be the number of replicas that share their state; give it");
    if (*degree != 1) {
      if (number("parallelism.data_parallel_replicate_degree").value_or(1) > 1)
        refuse(*shards, "replicas of sharded replicas are not built; keep one of the two degrees");
      const ForeignSetting* reshard = find("parallelism.fsdp_reshard_after_forward");
      const std::string where = shards->place + ": " + shards->key;
      put("dp", {{fmt::format("{}", *degree)}, where, shards->place});
      put("zero", {{reshard && reshard->value == "never" ? "2" : "3"}, where, shards->place});
      drop("parallelism.data_parallel_replicate_degree");
    }
    drop("parallelism.data_parallel_shard_degree");
  }
  void settle_torchtitan_rate() {
    ForeignSetting* factor = find("lr_scheduler.min_lr_factor");
    if (!factor) return;
    const auto rate = number("optimizer.lr");
    if (!rate && factor->value != 0) refuse(*factor, "is a share of optimizer.lr, which the file does not give; use --min-lr");
    if (factor->value.is_number()) factor->value = factor->value.as_double() * rate.value_or(0);
  }
  void settle_torchtitan_batch() {
    ForeignSetting *local = find("training.local_batch_size"), *each = find("parallelism.pipeline_parallel_microbatch_size");
    if (local && number("parallelism.pipeline_parallel_degree").value_or(1) > 1) {
      const auto size = static_cast<std::int64_t>(number("parallelism.pipeline_parallel_microbatch_size").value_or(1));
      const std::int64_t sequences = local->value.whole().value_or(0);
      if (size < 1 || sequences < 1 || sequences % size != 0)
        refuse(*local, fmt::format("is not a multiple of pipeline_parallel_microbatch_size, {}; make it one", size));
      put("microbatches", {{fmt::format("{}", sequences / size)}, local->place + ": " + local->key, local->place});
      local->value = size;
    }
    if (each) drop("parallelism.pipeline_parallel_microbatch_size");
  }

  // Without separate evaluation data, --split names the share for evaluation; it has no counterpart here.
  void settle_megatron() {
    for (const char* key : {"data-path", "train-data-path", "valid-data-path"}) settle_megatron_path(find(key));
    if (!find("valid-data-path")) drop("eval-interval");
    const ForeignSetting* method = find("recompute-method");
    if (method && method->value == "uniform") drop("recompute-num-layers");  // every layer, in units of this many
  }
  // Turns "--data-path 0.3 a 0.7 b" into a:0.3 b:0.7.
  static void settle_megatron_path(ForeignSetting* path) {
    if (!path || !path->value.is_array() || path->value.size() % 2 != 0) return;
    Json pairs = Json::array();
    for (std::size_t i = 0; i < path->value.size(); i += 2)
      pairs.push_back(setting_word(*path, path->value[i + 1]) + ":" + setting_word(*path, path->value[i]));
    path->value = std::move(pairs);
  }

  void take(const ForeignSetting& setting) {
    const auto keys = keys_of(system_);
    const auto key =
        std::find_if(keys.begin(), keys.end(), [&](const ForeignKey& each) { return matches(each.key, setting.key); });
    if (key != keys.end()) return apply(*key, setting);
    std::string name = setting.key;
    std::replace(name.begin(), name.end(), '_', '-');
    // An option of pipetrain among theirs.
    if (find_option(table_, name)) return put_words(name, setting, words_of(setting));
    const auto ours = our_spelling(setting.key);
    refuse(setting, fmt::format("is not a key of {} that is known here; {}", name_of(system_),
                                !ours                     ? "leave it out"
                                : ours->starts_with("--") ? "here it may be " + *ours
                                                          : *ours));
  }

  void apply(const ForeignKey& key, const ForeignSetting& setting) {
    switch (key.rule) {
      case ForeignRule::maps:
        return put_list(words_in(key.target), setting);
      case ForeignRule::words:
        return put_words(std::string(key.target), setting, {translated(key, setting)});
      case ForeignRule::when_on:
        return put_switch(key, setting);
      case ForeignRule::holds:
        return;
      case ForeignRule::holds_for: {
        const auto words = words_in(key.words);
        if (std::find(words.begin(), words.end(), lower(setting_word(setting, setting.value))) == words.end())
          refuse(setting, fmt::format("{} is not supported here: {}", setting_word(setting, setting.value), key.target));
        return;
      }
      case ForeignRule::refused:
        if (key.words.empty()) refuse(setting, std::string(key.target));
        options_.try_emplace(std::string(key.words),
                             RawOption{{}, fmt::format("{}: {}: {}", setting.place, setting.key, key.target), setting.place});
    }
  }

  std::vector<std::string> words_of(const ForeignSetting& setting) {
    if (!setting.value.is_array()) return {setting_word(setting, setting.value)};
    std::vector<std::string> words;
    for (const Json& value : setting.value) words.push_back(setting_word(setting, value));
    if (words.empty()) refuse(setting, "is an empty list; give a value or leave it out");
    return words;
  }
  void put_list(const std::vector<std::string>& targets, const ForeignSetting& setting) {
    std::vector<std::string> words = words_of(setting);
    if (targets.size() == 1) {
      const OptionSpec* spec = find_option(table_, targets[0]);
      if (setting.value.is_array() && spec && !spec->takes_several()) refuse(setting, "takes one value, not a list; give it");
      return put_words(targets[0], setting, std::move(words));
    }
    if (words.size() != targets.size()) refuse(setting, fmt::format("must be a list of {} numbers", targets.size()));
    for (std::size_t i = 0; i < targets.size(); ++i) put_words(targets[i], setting, {words[i]});
  }
  void put_switch(const ForeignKey& key, const ForeignSetting& setting) {
    if (!setting.value.is_boolean()) refuse(setting, "must be true or false");
    const std::string_view asks = setting.value == true ? key.target : key.words;
    if (asks.empty()) return;
    const std::size_t equals = asks.find('=');
    const std::string option(asks.substr(0, equals)), word(asks.substr(equals + 1));
    if (setting.value == true) return put_words(option, setting, {word});
    fallbacks_.try_emplace(option, RawOption{{word}, fmt::format("{}: {}", setting.place, setting.key), setting.place});
  }
  static std::string translated(const ForeignKey& key, const ForeignSetting& setting) {
    const std::string word = lower(setting_word(setting, setting.value));
    std::string known;
    for (const std::string& pair : words_in(key.words)) {
      const std::size_t colon = pair.find(':');
      const std::string theirs = pair.substr(0, colon);
      if (theirs == "*" || lower(theirs) == word) return pair.substr(colon + 1);
      known += (known.empty() ? "" : ", ") + theirs;
    }
    refuse(setting, fmt::format("{} is not built; known are {}", word, known));
  }

  void put_words(const std::string& option, const ForeignSetting& setting, std::vector<std::string> words) {
    const OptionSpec* spec = find_option(table_, option);
    if (words.size() > 1 && spec && !spec->takes_several()) refuse(setting, "takes one value; keep one");
    put(option, {words, fmt::format("{}: {} = {}", setting.place, setting.key, fmt::join(words, " ")), setting.place});
  }
  // Keys with the same meaning may both be given.
  void put(const std::string& option, RawOption value) {
    if (!find_option(table_, option))
      throw Error(ErrorKind::input, fmt::format("{}: this command has no option for it; leave it out", value.where));
    const auto [there, added] = options_.try_emplace(option, value);
    if (added) return;
    if (there->second.words.empty()) {  // a refusal that this key resolves
      there->second = std::move(value);
    } else if (there->second.words != value.words) {
      throw Error(ErrorKind::input, fmt::format("{}: but {}; keep one of them", value.where, there->second.where));
    }
  }

  const OptionRows& table_;
  ForeignSystem system_;
  std::vector<ForeignSetting> settings_;
  RawOptions options_, fallbacks_;
};

}  // namespace

const char* name_of(ForeignSystem system) {
  constexpr const char* names[] = {"DeepSpeed's", "torchtitan's", "Megatron-LM's"};
  return names[static_cast<int>(system)];
}

void add_leaves(const std::string& key, const Json& value, const std::string& place, std::vector<ForeignSetting>& settings) {
  if (!value.is_object()) {
    settings.push_back({key, value, place});
    return;
  }
  for (const auto& [name, member] : value.items()) add_leaves(key + "." + name, member, place, settings);
}

RawOptions foreign_options(const OptionRows& table, ForeignSystem system, std::vector<ForeignSetting> settings) {
  return ForeignFile(table, system, std::move(settings)).options();
}

}  // namespace pipetrain
