#include "model/context/document_starts.hpp"

#include <cassert>

namespace pipetrain {

void split_documents(const SequencePart& part, std::int64_t sequence, std::span<const std::int32_t> begins,
                     const DocumentStarts& to) {
  assert(to.origins.empty() || to.origins.size() == to.begins.size());
  const std::int64_t samples = std::ssize(begins) / sequence, tokens = std::ssize(to.begins) / samples;
  for (std::size_t i = 0; i < to.begins.size(); ++i) {
    const std::int64_t sample = static_cast<std::int64_t>(i) / tokens, token = static_cast<std::int64_t>(i) % tokens;
    const std::int64_t position = part.position(token, tokens);
    const std::int32_t begin = begins[static_cast<std::size_t>(sample * sequence + position)];
    to.begins[i] = begin;
    if (!to.origins.empty()) to.origins[i] = static_cast<std::int32_t>(token - position) + begin;
  }
}

}  // namespace pipetrain
