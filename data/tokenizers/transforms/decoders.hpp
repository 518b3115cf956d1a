// How the pieces of ids become text again: the decoders of tokenizer.json. Internal to data/.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/tokenizers/text/component.hpp"

namespace pipetrain {

// Immutable and thread-safe.
class PieceDecoder {
 public:
  virtual ~PieceDecoder() = default;
  // Changes the pieces, or their number. What is left at the end is joined.
  virtual void apply(std::vector<std::string>& pieces) const = 0;
  // The piece of which apply(), as the first step, makes the content of an added token, which is text and no piece of a model.
  virtual std::string piece_of_added(const std::string& content) const { return content; }
};

// Steps in order: a Sequence in its parts. Throws Error(input) for what is not supported.
std::vector<std::unique_ptr<PieceDecoder>> make_decoders(const Component& component);

}  // namespace pipetrain
