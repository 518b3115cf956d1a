#include "model/context_documents.hpp"

#include <cassert>

namespace pipetrain {

void deal_documents(const ContextPart& part, std::int64_t sequence, std::span<const std::int32_t> begins,
                    const ContextDocuments& to) {
  assert(to.begins.size() * static_cast<std::size_t>(part.size) == begins.size() && to.origins.size() == to.begins.size());
  const std::int64_t tokens = sequence / part.size;
  for (std::size_t i = 0; i < to.begins.size(); ++i) {
    const std::int64_t sample = static_cast<std::int64_t>(i) / tokens, token = static_cast<std::int64_t>(i) % tokens;
    const std::int64_t position = part.position(token, tokens);
    const std::int32_t begin = begins[static_cast<std::size_t>(sample * sequence + position)];
    to.begins[i] = begin;
    to.origins[i] = static_cast<std::int32_t>(token - position) + begin;
  }
}

}  // namespace pipetrain
