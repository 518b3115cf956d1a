// TrainedParts names the parts of a model that training changes. The others are frozen: their weights stay as they were loaded
// or drawn.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pipetrain {

struct TrainedParts {
  bool blocks = true;      // attention and MLP of all layers; with adapters their matrices stay frozen
  bool embeddings = true;  // the tables of tokens and of positions
  bool head = true;        // the final norm and the output matrix
  bool all() const { return blocks && embeddings && head; }
  bool operator==(const TrainedParts&) const = default;
};

// Returns "all", "none", or the trained parts as in "blocks,head".
std::string to_string(const TrainedParts& trained);
// Returns the parts of such a text; nothing for any other text.
std::optional<TrainedParts> read_trained_parts(std::string_view text);

// Throws Error(input) where only one end of a tied table is trained, or where nothing is and there are no adapters.
void check_trained_parts(const TrainedParts& trained, bool tied_embeddings, bool has_adapters = false);

}  // namespace pipetrain
