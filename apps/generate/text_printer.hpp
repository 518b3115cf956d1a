// What generate writes to stdout.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/generation/decoding.hpp"
#include "data/prompts.hpp"
#include "data/tokenizers/text_stream.hpp"

namespace pipetrain {

// Prints the prompts' texts in their order: that of the first that has not ended as it comes, others when it is their turn; as
// JSON a line for each, once it has ended.
class TextPrinter : public DecodingEvents {
 public:
  using Ids = std::vector<std::int32_t>;

  // Of each prompt its ids. The prompts and the tokenizer (null: bytes are tokens) outlive it.
  TextPrinter(const std::vector<Prompt>& prompts, const std::vector<Ids>& ids, const Tokenizer* tokenizer, bool json);

  std::int64_t tokens() const { return tokens_; }

  // Throw std::system_error where stdout cannot be written: nobody would read the rest either.
  void token(std::size_t prompt, std::int32_t id) override;
  void ended(std::size_t prompt, SequenceEnd how) override;

 private:
  struct Answer {
    TextStream stream;
    std::string text;  // that has not been printed
    std::int64_t tokens = 0;
    std::optional<SequenceEnd> end;
  };

  bool streams() const { return !json_; }
  void add(std::size_t prompt, const std::string& text);
  void finish_next();
  static std::string json_line(const Prompt& prompt, const Answer& answer);

  const std::vector<Prompt>& prompts_;
  bool json_;
  std::vector<Answer> answers_;
  std::size_t next_ = 0;  // to print
  std::int64_t tokens_ = 0;
};

}  // namespace pipetrain
