#include "data/rows/row_keys.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <vector>

#include "core/parsing.hpp"
#include "files/json_builder.hpp"

namespace pipetrain {
namespace {

// Keys of datasets on the Hugging Face hub for the origin of texts and for measurements of them.
constexpr std::string_view harmless_keys =
    "__index_level_0__ _id added author authors category char_count crawl created created_at data_source dataset "
    "dataset_name date digest doc_id document_id domain dump ext file file_name file_path filename guid hash id "
    "idx index int_score lang language language_score len length licence license link locale md5 meta metadata "
    "model n_tokens num_tokens origin path pile_set_name prompt_id provenance published ranking rating ratings "
    "repo repo_name repository row_id score scores sha sha1 sha256 size source split src subset tag tags task "
    "task_name time timestamp title token_count topic type uid updated_at uri url uuid version warc_path "
    "word_count year";

struct KeyGroup {
  KeyMeaning meaning;
  const char* why;
  std::vector<const char*> keys;
};

// Grouped as Hugging Face's TRL, axolotl and LLaMA-Factory, and the formats of ShareGPT, Alpaca and OpenAI name them.
const std::vector<KeyGroup>& key_groups() {
  static const std::vector<KeyGroup> groups = {
      {KeyMeaning::content,
       R"(write the conversation as {"messages": [{"role": "user", "content": "..."}, ...]})",
       {"chat", "conversation", "dialog", "dialogue", "turns"}},
      {KeyMeaning::content,
       R"(write the question and its answer as {"prompt": "...", "response": "..."})",
       {"answer", "answers", "chosen_response", "completion", "completions", "context", "input", "inputs", "instruction",
        "instructions", "output", "outputs", "queries", "query", "question", "questions", "responses", "target", "targets"}},
      {KeyMeaning::content,
       R"(write what comes before the question into "prompt", or as the first of "messages")",
       {"history", "system", "system_message", "system_prompt"}},
      {KeyMeaning::content,
       "it is for chat templates that render it, which the built-in ones do not; leave it out, or write it into the text",
       {"chat_template", "chat_template_kwargs", "documents", "function", "function_call", "function_calls", "functions",
        "tool_calls", "tool_choice", "tools"}},
      {KeyMeaning::content,
       "a model learns here from text alone; leave it out, or write it into the text",
       {"audio", "audios", "image", "images", "pixel_values", "speech", "video", "videos"}},
      {KeyMeaning::content,
       "training on preferences takes one of the losses dpo, orpo and kto; choose it, or leave the key out",
       {"chosen", "kto_tag", "margin", "preference", "preferences", "reject", "rejected", "reward", "rewards"}},
      {KeyMeaning::content,
       "write it into the text, as the model is to say it, or leave it out",
       {"prefill", "reasoning", "reasoning_content", "thinking", "thought", "thoughts"}},
      {KeyMeaning::content,
       "give each document a row of its own, and pack them as documents or isolated",
       {"cu_seq_lens", "cu_seqlens", "seq_idx", "seq_lengths", "seq_start_id"}},
      {KeyMeaning::content, R"(ids are read of "input_ids" alone; leave it out)", {"decoder_input_ids", "inputs_embeds"}},
      {KeyMeaning::weight,
       "all that counts has the weight 1; leave it out, or repeat the row",
       {"importance", "loss_weight", "loss_weights", "sample_weight", "sample_weights", "train", "training", "weight",
        "weights"}}};
  return groups;
}

std::map<std::string_view, KeyRule> make_key_rules() {
  std::map<std::string_view, KeyRule> rules;
  for (const std::string_view key : split(harmless_keys, ' ')) rules[key] = {KeyMeaning::harmless};
  for (const KeyGroup& group : key_groups())
    for (const char* key : group.keys) rules[key] = {group.meaning, group.why};
  return rules;
}

}  // namespace

RowKey row_key(std::string_view key) {
  static const std::map<std::string_view, RowKey> keys = {{"prompt", RowKey::prompt},     {"response", RowKey::response},
                                                          {"messages", RowKey::messages}, {"conversations", RowKey::messages},
                                                          {"input_ids", RowKey::ids},     {"labels", RowKey::labels},
                                                          {"label", RowKey::label}};
  const auto found = keys.find(key);
  return found == keys.end() ? RowKey::other : found->second;
}

KeyRule rule_of_key(std::string_view key) {
  static const std::map<std::string_view, KeyRule> rules = make_key_rules();
  if (const auto found = rules.find(key); found != rules.end()) return found->second;
  if (key == "mask" || key.ends_with("_mask") || key.ends_with("_masks"))
    return {KeyMeaning::content, R"(write "labels" next to "input_ids", with -100 where nothing is to be learned)"};
  const bool is_ranked =
      key.starts_with("chosen_") || key.starts_with("rejected_") || key.ends_with("_chosen") || key.ends_with("_rejected");
  return is_ranked ? rules.at("rejected") : KeyRule{};
}

void UnreadKeys::add(std::string_view key) {
  const std::scoped_lock lock(mutex_);
  if (has_more_ || shown_.contains(key)) return;
  shown_.size() < most_shown ? void(shown_.emplace(key)) : void(has_more_ = true);
}

std::string UnreadKeys::note() const {
  const std::scoped_lock lock(mutex_);
  if (shown_.empty()) return "";
  std::vector<std::string> names;
  for (const std::string& key : shown_) names.push_back(shown_json_key(std::string_view(key).substr(0, 60)));
  return fmt::format("these keys of rows are not read: {}{}", fmt::join(names, ", "), has_more_ ? ", ..." : "");
}

}  // namespace pipetrain
