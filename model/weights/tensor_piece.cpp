#include "model/weights/tensor_piece.hpp"

#include <fmt/format.h>

#include <charconv>

namespace pipetrain {
namespace {

// Reads "A:B", each a plain number, A below B.
std::optional<TensorPiece::Range> read_range(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {};
  const auto number = [](std::string_view digits) -> std::optional<std::int64_t> {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool plain = !digits.empty() && digits[0] != '-' && (digits[0] != '0' || digits.size() == 1);
    if (!plain || error != std::errc() || end != digits.data() + digits.size()) return {};
    return value;
  };
  const auto first = number(text.substr(0, colon)), last = number(text.substr(colon + 1));
  if (!first || !last || *first >= *last) return {};
  return TensorPiece::Range{*first, *last};
}

// Cuts "OPEN...CLOSE" off the end; returns nothing if the name does not end so.
std::optional<std::string_view> take_bracket(std::string_view& name, char open, char close) {
  if (!name.ends_with(close)) return {};
  const std::size_t at = name.rfind(open);
  if (at == std::string_view::npos) return {};
  const std::string_view inside = name.substr(at + 1, name.size() - at - 2);
  name = name.substr(0, at);
  return inside;
}

}  // namespace

std::string to_string(const TensorPiece& piece) {
  std::string name = piece.state + "/" + piece.tensor;
  if (piece.axis >= 0) name += fmt::format("[{}{}:{}]", piece.axis == 1 ? ":," : "", piece.begin, piece.end);
  if (piece.transposed) name += ".T";
  if (piece.elements) name += fmt::format("{{{}:{}}}", piece.elements->first, piece.elements->last);
  return name;
}

std::optional<TensorPiece> read_piece_name(std::string_view name) {
  TensorPiece piece;
  if (name.ends_with('}')) {
    const auto inside = take_bracket(name, '{', '}');
    if (!inside || !(piece.elements = read_range(*inside))) return {};
  }
  if (name.ends_with(".T")) {
    piece.transposed = true;
    name.remove_suffix(2);
  }
  if (name.ends_with(']')) {
    auto inside = take_bracket(name, '[', ']');
    if (!inside) return {};
    piece.axis = inside->starts_with(":,") ? 1 : 0;
    if (piece.axis == 1) inside->remove_prefix(2);
    const auto range = read_range(*inside);
    if (!range) return {};
    piece.begin = range->first;
    piece.end = range->last;
  }
  const std::size_t slash = name.find('/');
  if (slash == 0 || slash == std::string_view::npos || slash + 1 == name.size()) return {};
  piece.state = name.substr(0, slash);
  piece.tensor = name.substr(slash + 1);
  if (piece.tensor.find_first_of("[]{}/") != std::string::npos || piece.tensor.ends_with(".T")) return {};
  return piece;
}

}  // namespace pipetrain
