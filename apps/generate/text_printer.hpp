// Prints the output of generate to stdout.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/generation/decoding.hpp"
#include "data/prompts.hpp"
#include "data/tokenizers/text_stream.hpp"

namespace pipetrain {

// Prints the prompts' texts in order: the text of the first unfinished prompt as it arrives, the others in their turn.
// As JSON it prints a line for each prompt once it has ended.
class TextPrinter : public DecodingEvents {
 public:
  using Ids = std::vector<std::int32_t>;

  // ids: those of each prompt. The prompts and the tokenizer (null: bytes are tokens) must outlive this object.
  TextPrinter(const std::vector<Prompt>& prompts, const std::vector<Ids>& ids, const Tokenizer* tokenizer, bool json);

  std::int64_t tokens() const { return tokens_; }

  // Throw std::system_error if stdout cannot be written, since nobody would read the rest either.
  void token(std::size_t prompt, std::int32_t id) override;
  void ended(std::size_t prompt, SequenceEnd how) override;

 private:
  struct Answer {
    TextStream stream;
    std::string text;  // not yet printed
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
  std::size_t next_ = 0;  // the prompt to print
  std::int64_t tokens_ = 0;
};

}  // namespace pipetrain
