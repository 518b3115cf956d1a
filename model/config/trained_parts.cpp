#include "model/config/trained_parts.hpp"

#include "core/error.hpp"

namespace pipetrain {

std::string to_string(const TrainedParts& trained) {
  if (trained.all()) return "all";
  std::string text;
  const auto add = [&](bool is_trained, const char* name) {
    if (is_trained) text += (text.empty() ? "" : ",") + std::string(name);
  };
  add(trained.blocks, "blocks");
  add(trained.embeddings, "embeddings");
  add(trained.head, "head");
  return text.empty() ? "none" : text;
}

std::optional<TrainedParts> read_trained_parts(std::string_view text) {
  for (unsigned bits = 0; bits < 8; ++bits) {
    const TrainedParts trained{(bits & 1U) != 0, (bits & 2U) != 0, (bits & 4U) != 0};
    if (to_string(trained) == text) return trained;
  }
  return {};
}

void check_trained_parts(const TrainedParts& trained, bool tied_embeddings, bool has_adapters) {
  if (!has_adapters && trained == TrainedParts{false, false, false})
    throw Error(ErrorKind::input, "every part of the model is frozen, so that nothing is left to train; train a part of it");
  if (tied_embeddings && trained.embeddings != trained.head)
    throw Error(ErrorKind::input,
                "the model's head uses the embeddings' table of tokens, so that one cannot be frozen while the other is "
                "trained; freeze both or neither");
}

}  // namespace pipetrain
