#include "data/tokenizers/transforms/normalizers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "data/tokenizers/text/unicode.hpp"
#include "data/tokenizers/text/utf8.hpp"
#include "data/tokenizers/transforms/charsmap.hpp"

namespace pipetrain {
namespace {

using NormalizerSteps = std::vector<std::unique_ptr<TextNormalizer>>;

class NormalFormStep : public TextNormalizer {
 public:
  explicit NormalFormStep(NormalForm form) : form_(form) {}
  void apply(NormalizedText& normalized) const override {
    auto& [text, at_start, front, buffer] = normalized;
    front.refuse();
    if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; })) return;
    buffer.clear();
    append_normalized(text, form_, buffer);
    text.swap(buffer);
  }

 private:
  NormalForm form_;
};

// Replaces each character by what `Change` appends for it.
template <class Change>
class EachCharacter : public TextNormalizer {
 public:
  explicit EachCharacter(Change change) : change_(std::move(change)) {}
  void apply(NormalizedText& normalized) const override {
    auto& [text, at_start, front, buffer] = normalized;
    front.refuse();
    buffer.clear();
    std::size_t at = 0;
    change_(next_code_point(text, at), buffer);
    if (buffer.empty()) at_start = false;
    while (at < text.size()) change_(next_code_point(text, at), buffer);
    text.swap(buffer);
  }

 private:
  Change change_;
};

template <class Change>
std::unique_ptr<TextNormalizer> each_character(Change change) {
  return std::make_unique<EachCharacter<Change>>(std::move(change));
}

class Prepend : public TextNormalizer {
 public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}
  void apply(NormalizedText& normalized) const override {
    normalized.text.insert(0, text_);
    if (normalized.front.bytes > 0) normalized.front.bytes += text_.size();
  }

 private:
  std::string text_;
};

// Builds a text from parts of another and the replacements of matches, and counts how much of its front was inserted.
class Replacement {
 public:
  Replacement(NormalizedText& normalized, const std::string& to) : normalized_(normalized), to_(to) { buffer().clear(); }

  void keep(std::size_t begin, std::size_t end) {
    const std::size_t inserted = normalized_.front.bytes;
    front_ += std::min(end, inserted) - std::min(begin, inserted);
    buffer().append(normalized_.text, begin, end - begin);
  }
  // A replacement stands for the character before the match's end; that of an empty match at the front stands for none.
  void replace(std::size_t begin, std::size_t end) {
    if (begin == 0 && end > 0 && to_.empty()) normalized_.at_start = false;
    if (end <= normalized_.front.bytes) front_ += to_.size();
    buffer() += to_;
  }
  void finish(const std::string& place) {
    normalized_.text.swap(buffer());
    if (front_ > normalized_.front.bytes) normalized_.front.by = &place;
    normalized_.front.bytes = front_;
  }

 private:
  std::string& buffer() { return normalized_.buffer; }

  NormalizedText& normalized_;
  const std::string& to_;
  std::size_t front_ = 0;
};

class ReplaceText : public TextNormalizer {
 public:
  // `from` must not be empty.
  ReplaceText(std::string from, std::string to, std::string place)
      : from_(std::move(from)), to_(std::move(to)), place_(std::move(place)) {}
  void apply(NormalizedText& normalized) const override {
    const std::string& text = normalized.text;
    std::size_t at = text.find(from_), done = 0;
    if (at == std::string::npos) return;
    Replacement replacement(normalized, to_);
    for (; at != std::string::npos; at = text.find(from_, done)) {
      replacement.keep(done, at);
      done = at + from_.size();
      replacement.replace(at, done);
    }
    replacement.keep(done, text.size());
    replacement.finish(place_);
  }

 private:
  std::string from_, to_, place_;
};

class ReplacePattern : public TextNormalizer {
 public:
  ReplacePattern(Regex pattern, std::string to, std::string place)
      : pattern_(std::move(pattern)), to_(std::move(to)), place_(std::move(place)) {}
  void apply(NormalizedText& normalized) const override {
    Replacement replacement(normalized, to_);
    pattern_.for_each_part(normalized.text, [&](std::size_t begin, std::size_t end, bool matches) {
      matches ? replacement.replace(begin, end) : replacement.keep(begin, end);
    });
    replacement.finish(place_);
  }

 private:
  Regex pattern_;
  std::string to_, place_;
};

class Strip : public TextNormalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(NormalizedText& normalized) const override {
    auto& [text, at_start, front, buffer] = normalized;
    std::size_t begin = 0, end = 0;  // of the text without white space
    bool any = false;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t here = at;
      if (is_white_space(next_code_point(text, at))) continue;
      if (!std::exchange(any, true)) begin = here;
      end = at;
    }
    if ((left_ && (begin > 0 || !any)) || (right_ && end < text.size())) front.refuse();
    if (!any) return left_ || right_ ? text.clear() : void();
    if (right_) text.resize(end);
    if (!left_ || begin == 0) return;
    text.erase(0, begin);
    at_start = false;
  }

 private:
  bool left_, right_;
};

void append_without_marks(char32_t code, std::string& text) {
  if (!is_mark(code)) append_utf8(code, text);
}

// Applies the rules of sentencepiece's nmt: some controls are removed, other separators become spaces.
void append_nmt(char32_t code, std::string& text) {
  const auto in = [code](char32_t first, char32_t last) { return code >= first && code <= last; };
  if (in(1, 8) || code == 0xB || in(0xE, 0x1F) || code == 0x7F || code == 0x8F || code == 0x9F) return;
  const bool space = code == 9 || code == 0xA || code == 0xC || code == 0xD || code == 0x1680 || in(0x200B, 0x200F) ||
                     code == 0x2028 || code == 0x2029 || code == 0x2581 || code == 0xFEFF || code == 0xFFFD;
  append_utf8(space ? 0x20 : code, text);
}

// Applies BERT's basic cleaning: characters that are not text are removed, and separators become spaces.
void append_clean(char32_t code, std::string& text) {
  const bool breaks = code == 9 || code == 0xA || code == 0xD;
  if (code == 0 || code == 0xFFFD || (!breaks && is_other(code))) return;
  append_utf8(is_white_space(code) ? 0x20 : code, text);
}

// Puts spaces around Chinese characters, by the blocks that the library knows, including its gap in extension E.
void append_apart_if_chinese(char32_t code, std::string& text) {
  const auto in = [code](char32_t first, char32_t last) { return code >= first && code <= last; };
  const bool chinese = in(0x3400, 0x4DBF) || in(0x4E00, 0x9FFF) || in(0xF900, 0xFAFF) || in(0x20000, 0x2A6DF) ||
                       in(0x2A700, 0x2B81F) || in(0x2B920, 0x2CEAF) || in(0x2F800, 0x2FA1F);
  if (chinese) text += ' ';
  append_utf8(code, text);
  if (chinese) text += ' ';
}

// The library uses a version of Unicode in which two Mongolian letters were not marks yet.
void append_without_nonspacing(char32_t code, std::string& text) {
  if (!is_nonspacing_mark(code) || code == 0x1885 || code == 0x1886) append_utf8(code, text);
}

void add_bert(const Component& component, NormalizerSteps& steps) {
  const bool lowercase = component.flag("lowercase", true);
  if (component.flag("clean_text", true)) steps.push_back(each_character(append_clean));
  if (component.flag("handle_chinese_chars", true)) steps.push_back(each_character(append_apart_if_chinese));
  if (component.flag("strip_accents", lowercase)) {
    steps.push_back(std::make_unique<NormalFormStep>(NormalForm::nfd));
    steps.push_back(each_character(append_without_nonspacing));
  }
  if (lowercase) steps.push_back(each_character(append_lowercase));
}

std::unique_ptr<TextNormalizer> make_replace(const Component& component) {
  const std::string to = component.text("content");
  const std::string from = component.literal_pattern("pattern");
  if (!from.empty()) return std::make_unique<ReplaceText>(from, to, component.place());
  return std::make_unique<ReplacePattern>(component.pattern("pattern"), to, component.place());
}

std::unique_ptr<TextNormalizer> make_normalizer_step(const Component& component) {
  const std::string& type = component.type();
  if (type == "NFC") return std::make_unique<NormalFormStep>(NormalForm::nfc);
  if (type == "NFD") return std::make_unique<NormalFormStep>(NormalForm::nfd);
  if (type == "NFKC") return std::make_unique<NormalFormStep>(NormalForm::nfkc);
  if (type == "NFKD") return std::make_unique<NormalFormStep>(NormalForm::nfkd);
  if (type == "Lowercase") return each_character(append_lowercase);
  if (type == "StripAccents") return each_character(append_without_marks);
  if (type == "Nmt") return each_character(append_nmt);
  if (type == "Prepend") return std::make_unique<Prepend>(component.text("prepend"));
  if (type == "Replace") return make_replace(component);
  if (type == "Strip") return std::make_unique<Strip>(component.flag("strip_left", true), component.flag("strip_right", true));
  if (type == "Precompiled") return make_precompiled(component);
  component.fail_type(
      "Sequence, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Nmt, Prepend, Replace, BertNormalizer and Precompiled");
}

}  // namespace

void InsertedFront::refuse() const {
  if (bytes > 0)
    throw Error(ErrorKind::input, fmt::format("{}: an empty match puts text in front of a text that a later step changes as a "
                                              "whole, which is not supported; give another tokenizer",
                                              *by));
}

NormalizerSteps make_normalizers(const Component& component) {
  NormalizerSteps steps;
  if (component.type() == "BertNormalizer") {
    add_bert(component, steps);
    return steps;
  }
  if (component.type() != "Sequence") {
    steps.push_back(make_normalizer_step(component));
    return steps;
  }
  for (const Component& part : component.parts("normalizers"))
    for (auto& step : make_normalizers(part)) steps.push_back(std::move(step));
  return steps;
}

}  // namespace pipetrain
