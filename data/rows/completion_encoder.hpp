// Encodes the completions of rows of preferences. Internal to data/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/rows/preference_row.hpp"
#include "data/tokenizers/chat_form.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace pipetrain {

// A prompt with a completion.
struct EncodedCompletion {
  std::vector<std::int32_t> ids;
  std::size_t prompt = 0;  // ids before the completion
};

// The prompt and each prompt with its completion are encoded as texts of their own. The completion begins where their ids part,
// for a pair at the earlier one of two such places, so that both sequences have the same prompt (as trl does). Texts get the
// tokens that surround other texts; chats are the template's text alone, with all of its text after the prompt in the
// completion.
class CompletionEncoder {
 public:
  // The tokens that the tokenizer puts around texts. Both arguments must outlive this.
  struct Around {
    const std::vector<std::int32_t>& front;
    std::int32_t end = 0;
  };
  CompletionEncoder(const Tokenizer& tokenizer, TextEncoder& encoder, const Around& around)
      : tokenizer_(tokenizer), encoder_(encoder), around_(around) {}

  std::vector<EncodedCompletion> encode_texts(const PreferenceRow& row);
  // Throws RowFault for messages that the template does not render, and Error(input) about the setting "chat-template".
  std::vector<EncodedCompletion> encode_chats(const PreferenceRow& row, const ChatForm& form, const std::string& setting);

 private:
  std::string rendered(const Chat& chat, const ChatForm& form, bool ask) const;
  std::vector<std::int32_t> encoded(const std::string& text, bool with_front);
  std::vector<EncodedCompletion> with_common_prompt(const std::vector<std::int32_t>& prompt,
                                                    std::vector<std::vector<std::int32_t>> all) const;

  const Tokenizer& tokenizer_;
  TextEncoder& encoder_;
  Around around_;
};

}  // namespace pipetrain
