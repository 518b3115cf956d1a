#include "schedules/plan/action.hpp"

#include <charconv>
#include <limits>

namespace pipetrain::schedules {

namespace {

constexpr std::string_view letters = "FBIWRSTNOXPGV";  // in the order of ActionKind
static_assert(letters.size() == action_kinds);

// Parses a decimal number without sign or leading zeros, at most `limit`; no value for any other text.
std::optional<int> parse_number(std::string_view text, int limit) {
  if (text.empty() || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > limit) return std::nullopt;
  return value;
}

// Parses the slice of a microbatch: "3.1".
std::optional<int> parse_piece(std::string_view text, int slices) {
  const auto point = text.find('.');
  if (point == std::string_view::npos) return std::nullopt;
  const auto microbatch = parse_number(text.substr(0, point), std::numeric_limits<std::int32_t>::max() / slices - 1);
  const auto slice = parse_number(text.substr(point + 1), slices - 1);
  if (!microbatch || !slice) return std::nullopt;
  return *microbatch * slices + *slice;
}

bool has_number(ActionKind kind) { return has_microbatch(kind) || is_custom(kind); }

}  // namespace

char letter(ActionKind kind) { return letters[static_cast<std::size_t>(kind)]; }

std::string piece_text(int microbatch, int slices) {
  if (slices == 1) return std::to_string(microbatch);
  return std::to_string(microbatch / slices) + "." + std::to_string(microbatch % slices);
}

std::string to_string(const Action& action, const ActionForm& form) {
  std::string text;
  if (form.chunks > 1 && is_per_chunk(action.kind)) text += std::to_string(action.chunk);
  text += letter(action.kind);
  if (has_number(action.kind)) text += piece_text(action.microbatch, has_microbatch(action.kind) ? form.slices : 1);
  return text;
}

std::optional<Action> parse_action(std::string_view text, int slices) {
  const auto at = text.find_first_of(letters);
  if (at == std::string_view::npos) return std::nullopt;
  Action action;
  action.kind = static_cast<ActionKind>(letters.find(text[at]));
  if (action.kind == ActionKind::preview) return std::nullopt;
  if (at > 0) {
    const auto chunk = parse_number(text.substr(0, at), std::numeric_limits<std::int16_t>::max());
    if (!chunk || !is_per_chunk(action.kind)) return std::nullopt;
    action.chunk = static_cast<std::int16_t>(*chunk);
  }
  const auto rest = text.substr(at + 1);
  if (!has_number(action.kind)) return rest.empty() ? std::optional(action) : std::nullopt;
  const auto microbatch = slices > 1 && has_microbatch(action.kind)
                              ? parse_piece(rest, slices)
                              : parse_number(rest, std::numeric_limits<std::int32_t>::max());
  if (!microbatch) return std::nullopt;
  action.microbatch = *microbatch;
  return action;
}

}  // namespace pipetrain::schedules
