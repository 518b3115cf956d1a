#include "data/tokenizers/transforms/post_processors.hpp"

#include <fmt/format.h>

#include "data/tokenizers/text/vocabulary.hpp"

namespace pipetrain {
namespace {

std::int32_t checked_id(const Component& component, const Json& value) {
  if (!value.is_unsigned() || value.as_uint64() >= static_cast<std::uint64_t>(Vocabulary::most_ids))
    component.fail(fmt::format("an id is not an integer from 0 to {}", Vocabulary::most_ids - 1));
  return static_cast<std::int32_t>(value.as_uint64());
}

// Appends the ids of an entry of "special_tokens", such as {"id": "<s>", "ids": [1], ...}.
void put_special(const Component& component, const Json& name, std::vector<std::int32_t>& ids) {
  const Json& specials = component.get("special_tokens");
  if (!name.is_string() || !specials.is_object()) component.fail("\"special_tokens\" is not an object, or a token has no name");
  const Json* const special = specials.find(name.as_string());
  if (!special || !special->is_object() || !special->contains("ids") || !special->at("ids").is_array())
    component.fail(fmt::format("\"special_tokens\" has no ids for {}", name.as_string()));
  for (const Json& id : special->at("ids")) ids.push_back(checked_id(component, id));
}

// Reads "single", such as [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}, ...].
SurroundingTokens from_template(const Component& component) {
  SurroundingTokens tokens;
  bool text = false;
  const Json& parts = component.get("single");
  if (!parts.is_array()) component.fail("\"single\" is not an array");
  for (const Json& part : parts) {
    const auto members = part.items();
    if (members.size() != 1 || !members[0].value.contains("id"))
      component.fail("a part of \"single\" is neither a SpecialToken nor a Sequence");
    const auto& [kind, settings] = members[0];
    const Json& id = settings.at("id");
    if (kind == "SpecialToken") {
      put_special(component, id, text ? tokens.after : tokens.before);
    } else if (kind == "Sequence" && id == "A" && !text) {
      text = true;
    } else {
      component.fail_unsupported("\"single\" is supported with special tokens around one Sequence A only");
    }
  }
  if (!text) component.fail("\"single\" has no Sequence A, where the text goes");
  return tokens;
}

// Returns the id of a pair such as ["<s>", 1].
std::int32_t pair_id(const Component& component, const char* key) {
  const Json& pair = component.get(key);
  if (!pair.is_array() || pair.size() != 2) component.fail(fmt::format("\"{}\" is not a token and its id", key));
  return checked_id(component, pair[1]);
}

}  // namespace

SurroundingTokens make_surrounding_tokens(const Component& component) {
  const std::string& type = component.type();
  if (type == "ByteLevel") return {};  // it changes only positions
  if (type == "TemplateProcessing") return from_template(component);
  if (type == "RobertaProcessing" || type == "BertProcessing")
    return {{pair_id(component, "cls")}, {pair_id(component, "sep")}};
  if (type != "Sequence") component.fail_type("Sequence, TemplateProcessing, ByteLevel, RobertaProcessing and BertProcessing");
  SurroundingTokens all;
  for (const Component& part : component.parts("processors")) {
    const SurroundingTokens tokens = make_surrounding_tokens(part);
    all.before.insert(all.before.begin(), tokens.before.begin(), tokens.before.end());
    all.after.insert(all.after.end(), tokens.after.begin(), tokens.after.end());
  }
  return all;
}

}  // namespace pipetrain
