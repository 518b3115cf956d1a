#include "model/weights/tied_head.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "core/error.hpp"

namespace pipetrain {

bool same_values(const HfTensors::Location& a, const HfTensors::Location& b, std::int64_t elements) {
  constexpr std::int64_t piece = std::int64_t{1} << 20;
  std::vector<float> of_a(static_cast<std::size_t>(std::min(piece, elements))), of_b(of_a.size());
  for (std::int64_t first = 0; first < elements; first += piece) {
    const std::int64_t count = std::min(piece, elements - first);
    a.file->read(a.name, first, count, of_a.data());
    b.file->read(b.name, first, count, of_b.data());
    if (!std::equal(of_a.begin(), of_a.begin() + count, of_b.begin())) return false;
  }
  return true;
}

bool has_own_head(const ModelConfig& config, const std::filesystem::path& folder) {
  return has_weight_files(folder) && has_own_head(config, HfTensors(spec_of(config.family), folder));
}

bool has_own_head(const ModelConfig& config, const HfTensors& tensors) {
  const FamilyNames& names = spec_of(config.family).names;
  const HfTensors::Location* const embedding = tensors.find(names.embedding);
  const HfTensors::Location* const head = tensors.find(names.head);
  if (embedding == nullptr || head == nullptr) return false;
  const Shape shape{config.vocabulary, config.hidden};
  embedding->file->check(embedding->name, shape);
  head->file->check(head->name, shape);
  return !same_values(*embedding, *head, shape.elements());
}

std::vector<SharedCopy> shared_copies(const ModelConfig& config) {
  if (!config.mtp.is_trained()) return {};
  const FamilyNames& names = spec_of(config.family).names;
  const std::string layer = fmt::format("{}{}.", names.layers, config.layers);
  return {{layer + "embed_tokens.weight", names.embedding}, {layer + "shared_head.head.weight", names.head}};
}

void check_shared_copies(const ModelConfig& config, const HfTensors& tensors) {
  const Shape shape{config.vocabulary, config.hidden};
  for (const SharedCopy& copy : shared_copies(config)) {
    const HfTensors::Location *const own = tensors.find(copy.name), *const of = tensors.find(copy.of);
    if (own == nullptr || of == nullptr) continue;
    own->check(shape);
    if (same_values(*own, *of, shape.elements())) continue;
    throw Error(ErrorKind::input,
                fmt::format("{}: tensor {} differs from {}, which a further prediction shares; give the weights of one model, "
                            "or leave this copy out",
                            own->file->path().string(), copy.name, copy.of));
  }
}

}  // namespace pipetrain
