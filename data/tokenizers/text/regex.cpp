#include "data/tokenizers/text/regex.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <new>

#include "core/error.hpp"
#include "data/tokenizers/text/utf8.hpp"

namespace pipetrain {
namespace {

constexpr std::size_t longest_pattern = 16 * 1024;
constexpr std::uint32_t most_match_steps = 10'000'000, most_match_kilobytes = 16 * 1024;

// The memory that a thread needs to match.
class MatchMemory {
 public:
  MatchMemory()
      : context_(pcre2_match_context_create(nullptr)),
        data_(pcre2_match_data_create(1, nullptr)),
        stack_(pcre2_jit_stack_create(32 * 1024, std::size_t{most_match_kilobytes} * 1024, nullptr)) {
    if (context_ == nullptr || data_ == nullptr || stack_ == nullptr) throw std::bad_alloc();
    pcre2_set_match_limit(context_, most_match_steps);
    pcre2_set_heap_limit(context_, most_match_kilobytes);
    pcre2_jit_stack_assign(context_, nullptr, stack_);
  }
  ~MatchMemory() {
    pcre2_jit_stack_free(stack_);
    pcre2_match_data_free(data_);
    pcre2_match_context_free(context_);
  }
  MatchMemory(const MatchMemory&) = delete;
  MatchMemory& operator=(const MatchMemory&) = delete;

  pcre2_match_context* context() { return context_; }
  pcre2_match_data* data() { return data_; }

 private:
  pcre2_match_context* context_;
  pcre2_match_data* data_;
  pcre2_jit_stack* stack_;
};

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct Regex::Code {
  std::string place;
  pcre2_code* code = nullptr;
  bool is_jit = false;
  ~Code() { pcre2_code_free(code); }

  Code(std::string place_, const std::string& pattern, std::uint32_t options) : place(std::move(place_)) {
    if (pattern.size() > longest_pattern)
      throw Error(ErrorKind::input, fmt::format("{}: a regular expression of {} bytes; at most {} are read", place,
                                                pattern.size(), longest_pattern));
    int error = 0;
    PCRE2_SIZE at = 0;
    code =
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | options, &error, &at, nullptr);
    if (code == nullptr)
      throw Error(ErrorKind::input,
                  fmt::format("{}: the regular expression is not one that can be read ({}, at byte {} of {}); correct it",
                              place, message_of(error), at, pattern));
    is_jit = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;  // otherwise it is interpreted, which is slower
  }
};

Regex::Regex(const std::string& pattern, const std::string& place)
    : Regex(std::make_unique<Code>(place, in_pcre2_syntax(pattern, place),
                                   PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C)) {}

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex::~Regex() = default;

Regex Regex::literal(const std::string& text, const std::string& place) {
  return Regex(std::make_unique<Code>(place, text, PCRE2_LITERAL));
}

std::optional<Match> Regex::find(std::string_view text, std::size_t from) const {
  thread_local MatchMemory memory;
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  // The text is valid UTF-8, so PCRE2 need not check it at every match.
  const int found =
      code_->is_jit
          ? pcre2_jit_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, memory.data(), memory.context())
          : pcre2_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, memory.data(), memory.context());
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (found < 0)
    throw Error(ErrorKind::input,
                fmt::format("{}: the regular expression cannot be matched with this text ({}); simplify it or "
                            "split the text",
                            code_->place, message_of(found)));
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(memory.data());
  if (ends[0] > ends[1])  // caused by \K in a lookahead
    throw Error(ErrorKind::input, fmt::format("{}: the regular expression matches backwards; correct it", code_->place));
  return Match{ends[0], ends[1]};
}

std::size_t Regex::after_character(std::string_view text, std::size_t at) {
  return at < text.size() ? at + utf8_length(text[at]) : text.size() + 1;
}

}  // namespace pipetrain
