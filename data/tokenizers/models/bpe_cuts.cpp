#include "data/tokenizers/models/bpe_cuts.hpp"

#include <set>

#include "data/tokenizers/text/utf8.hpp"

namespace pipetrain {
namespace {

std::string_view last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return text.substr(at);
}

class BpeCuts : public PreTokenizer {
 public:
  BpeCuts(std::string space, std::set<std::string, std::less<>> joined)
      : space_(std::move(space)), joined_(std::move(joined)) {}

  void apply(Pieces& pieces) const override {
    pieces.replace_each([this](std::string_view text, bool, const auto& put) {
      std::size_t begin = 0;
      for (std::size_t at = text.find(space_, 1); at != std::string_view::npos; at = text.find(space_, at + 1)) {
        if (joined_.contains(last_character(text.substr(0, at)))) continue;
        put(text.substr(begin, at - begin));
        begin = at;
      }
      put(text.substr(begin));
    });
  }

 private:
  std::string space_;
  std::set<std::string, std::less<>> joined_;  // characters at the end of a piece that a rule merges with a space
};

bool is_byte_piece(std::string_view piece) { return piece.size() == 6 && piece.starts_with("<0x") && piece.back() == '>'; }

}  // namespace

std::unique_ptr<PreTokenizer> find_bpe_cuts(const Vocabulary& vocabulary, const BpeOptions& options,
                                            const std::vector<std::pair<std::int32_t, std::int32_t>>& merges) {
  if (options.byte_level || options.ignore_merges || !options.continuing_prefix.empty() || !options.end_suffix.empty())
    return nullptr;
  const std::string space = vocabulary.find("\xE2\x96\x81") ? "\xE2\x96\x81" : " ";
  if (!vocabulary.find(space)) return nullptr;  // adjacent unknown characters may become one
  std::set<std::string, std::less<>> joined;
  for (const auto& [left_id, right_id] : merges) {
    for (const std::int32_t id : {left_id, right_id})
      if (id == options.unknown || (options.byte_fallback && is_byte_piece(vocabulary.piece(id)))) return nullptr;
    const std::string_view left = vocabulary.piece(left_id), right = vocabulary.piece(right_id);
    if (!left.empty() && right.starts_with(space)) joined.emplace(last_character(left));
  }
  return std::make_unique<BpeCuts>(space, std::move(joined));
}

}  // namespace pipetrain
