#include "data/tokenizers/transforms/pre_tokenizers.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "data/tokenizers/text/unicode.hpp"
#include "data/tokenizers/text/utf8.hpp"
#include "data/tokenizers/transforms/metaspace.hpp"
#include "data/tokenizers/transforms/split_pieces.hpp"

namespace pipetrain {
namespace {

// Splits at the matches of a regular expression.
class SplitAtMatches : public PreTokenizer {
 public:
  SplitAtMatches(Regex pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void apply(Pieces& pieces) const override {
    if (behavior_ == SplitBehavior::isolated) {  // parts stay unchanged
      pieces.replace_each([this](std::string_view text, bool, const auto& put) {
        pattern_.for_each_part(text, [&](std::size_t begin, std::size_t end, bool) { put(text.substr(begin, end - begin)); });
      });
      return;
    }
    std::vector<SplitPart> parts;
    pieces.replace_each([&](std::string_view text, bool, const auto& put) {
      parts.clear();
      pattern_.for_each_part(text, [&](std::size_t begin, std::size_t end, bool matches) {
        parts.push_back({begin, end, matches != invert_});
      });
      apply_behavior(behavior_, parts);
      for (const SplitPart& part : parts) put(text.substr(part.begin, part.end - part.begin));
    });
  }

 private:
  Regex pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Splits at characters of a kind, each a match of its own.
class SplitAtCharacters : public PreTokenizer {
 public:
  using IsMatch = std::function<bool(char32_t)>;
  SplitAtCharacters(IsMatch is_match, SplitBehavior behavior) : is_match_(std::move(is_match)), behavior_(behavior) {}

  void apply(Pieces& pieces) const override {
    std::vector<SplitPart> parts;
    pieces.replace_each([&](std::string_view text, bool, const auto& put) {
      find_parts(text, parts);
      apply_behavior(behavior_, parts);
      for (const SplitPart& part : parts) put(text.substr(part.begin, part.end - part.begin));
    });
  }

 private:
  void find_parts(std::string_view text, std::vector<SplitPart>& parts) const {
    parts.clear();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      const bool matches = is_match_(next_code_point(text, at));
      if (!matches && !parts.empty() && !parts.back().is_match) {
        parts.back().end = at;
      } else {
        parts.push_back({begin, at, matches});
      }
    }
  }

  IsMatch is_match_;
  SplitBehavior behavior_;
};

class PrefixSpace : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override {
    pieces.replace_each([&pieces](std::string_view text, bool, const auto& put) {
      if (text.starts_with(' ')) return put(text);
      char* out = pieces.arena().begin(text.size() + 1);
      *out = ' ';
      std::copy(text.begin(), text.end(), out + 1);
      put(pieces.arena().take(text.size() + 1));
    });
  }
};

std::unique_ptr<PreTokenizer> split_at(SplitAtCharacters::IsMatch is_match, SplitBehavior behavior) {
  return std::make_unique<SplitAtCharacters>(std::move(is_match), behavior);
}

std::unique_ptr<PreTokenizer> split_at(const Component& component, const char* pattern, SplitBehavior behavior, bool invert) {
  return std::make_unique<SplitAtMatches>(Regex(pattern, component.place()), behavior, invert);
}

void add_byte_level(const Component& component, PreTokenizers& result) {
  constexpr const char* gpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  if (component.flag("add_prefix_space", true)) result.steps.push_back(std::make_unique<PrefixSpace>());
  if (component.flag("use_regex", true)) result.steps.push_back(split_at(component, gpt2, SplitBehavior::isolated, false));
  result.byte_level = true;
}

std::unique_ptr<PreTokenizer> make_pre_tokenizer_step(const Component& component) {
  const std::string& type = component.type();
  if (type == "Split")
    return std::make_unique<SplitAtMatches>(component.pattern("pattern"), split_behavior(component, "behavior"),
                                            component.flag("invert", false));
  if (type == "Metaspace") return make_metaspace(component);
  if (type == "WhitespaceSplit") return split_at(is_white_space, SplitBehavior::removed);
  if (type == "Whitespace") return split_at(component, R"(\w+|[^\w\s]+)", SplitBehavior::removed, true);
  if (type == "Punctuation")
    return split_at(is_punctuation,
                    component.find("behavior") != nullptr ? split_behavior(component, "behavior") : SplitBehavior::isolated);
  if (type == "Digits")
    return split_at(is_numeric,
                    component.flag("individual_digits", false) ? SplitBehavior::isolated : SplitBehavior::contiguous);
  if (type == "CharDelimiterSplit") {
    const char32_t delimiter = component.character("delimiter");
    return split_at([delimiter](char32_t code) { return code == delimiter; }, SplitBehavior::removed);
  }
  component.fail_type(
      "Sequence, ByteLevel, Metaspace, Split, Whitespace, WhitespaceSplit, Punctuation, Digits, CharDelimiterSplit and "
      "BertPreTokenizer");
}

void add(const Component& component, PreTokenizers& result) {
  if (result.byte_level) component.fail_unsupported("follows ByteLevel, which is supported as the last pre_tokenizer only");
  if (component.type() == "Sequence") {
    for (const Component& part : component.parts("pretokenizers")) add(part, result);
  } else if (component.type() == "ByteLevel") {
    add_byte_level(component, result);
  } else if (component.type() == "BertPreTokenizer") {
    result.steps.push_back(split_at(is_white_space, SplitBehavior::removed));
    result.steps.push_back(split_at(is_punctuation, SplitBehavior::isolated));
  } else {
    result.steps.push_back(make_pre_tokenizer_step(component));
  }
}

}  // namespace

PreTokenizers make_pre_tokenizers(const Component& component) {
  PreTokenizers result;
  add(component, result);
  return result;
}

}  // namespace pipetrain
