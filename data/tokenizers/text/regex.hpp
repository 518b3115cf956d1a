// Regular expressions of tokenizer files: the syntax of Oniguruma, as Hugging Face's library reads them, matched by PCRE2.
// Internal to data/.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace pipetrain {

struct Match {
  std::size_t begin = 0, end = 0;
};

// Immutable and thread-safe. Unicode characters and their properties; ^ and $ match at every line.
class Regex {
 public:
  // Throws Error(input) if the pattern is wrong, or means something else in PCRE2 than in Oniguruma; `place` begins the error.
  Regex(const std::string& pattern, const std::string& place);
  // Matches exactly this text.
  static Regex literal(const std::string& text, const std::string& place);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) = delete;

  // Returns the first match that begins at `from` or later, of valid UTF-8. Throws Error(input) if matching takes too
  // long or too much memory.
  std::optional<Match> find(std::string_view text, std::size_t from) const;

  // Calls use(begin, end, is_match) for every part of the text in order: matches, and the text between them. A match may be
  // empty, but not at the end of the previous one, as in the iterator of Hugging Face's library. An empty text has no parts.
  template <class Use>
  void for_each_part(std::string_view text, const Use& use) const {
    std::size_t done = 0, from = 0;
    std::optional<std::size_t> last_end;
    while (from <= text.size() && !text.empty()) {
      const auto match = find(text, from);
      if (!match) break;
      if (match->begin == match->end && match->begin == last_end) {
        from = after_character(text, from);
        continue;
      }
      if (match->begin > done) use(done, match->begin, false);
      use(match->begin, match->end, true);
      done = from = match->end;
      last_end = match->end;
    }
    if (done < text.size()) use(done, text.size(), false);
  }

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);
  static std::size_t after_character(std::string_view text, std::size_t at);
  std::unique_ptr<Code> code_;
};

// Translates a pattern to PCRE2's syntax. Throws Error(input) as Regex does.
std::string in_pcre2_syntax(std::string_view pattern, const std::string& place);

}  // namespace pipetrain
