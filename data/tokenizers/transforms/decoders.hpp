// The decoders of tokenizer.json, which turn the pieces of ids back into text. Internal to data/.
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
  // Changes the pieces, or their number. The pieces that remain after all steps are joined.
  virtual void apply(std::vector<std::string>& pieces) const = 0;
  // Returns the piece from which apply(), as the first step, makes the content of an added token, which is text and not
  // a piece of a model.
  virtual std::string piece_of_added(const std::string& content) const { return content; }
};

// Makes the steps in order: those of a Sequence, or a single one. Throws Error(input) for steps that are not supported.
std::vector<std::unique_ptr<PieceDecoder>> make_decoders(const Component& component);

}  // namespace pipetrain
