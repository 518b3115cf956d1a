#include "data/tokenizers/models/unigram.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "data/tokenizers/text/utf8.hpp"

namespace pipetrain {
namespace {

constexpr double unknown_penalty = 10;

// The best segmentation of the word up to this position.
struct Node {
  double score = 0;
  std::int32_t id = -1;     // -1: unknown
  std::int32_t begin = -1;  // of the last piece; -1: no piece ends here
};

}  // namespace

struct Unigram::Memory : Scratch {
  std::vector<Node> ends;
  std::vector<std::pair<std::size_t, std::int32_t>> path;  // the pieces, the last first: each one's beginning and id
};

Unigram::Unigram(std::shared_ptr<const Vocabulary> vocabulary, std::vector<double> scores, Options options)
    : vocabulary_(std::move(vocabulary)), scores_(std::move(scores)), options_(options) {
  std::vector<std::pair<std::string_view, std::int32_t>> pieces;
  for (std::int32_t id = 0; id < vocabulary_->size(); ++id)
    if (!vocabulary_->piece(id).empty()) pieces.emplace_back(vocabulary_->piece(id), id);
  trie_ = PieceTrie(std::move(pieces));
  const auto lowest = std::min_element(scores_.begin(), scores_.end());
  unknown_score_ = (lowest == scores_.end() ? 0 : *lowest) - unknown_penalty;
  if (!options_.byte_fallback) return;
  for (int byte = 0; byte < 256; ++byte)
    if (const auto id = vocabulary_->find(fmt::format("<0x{:02X}>", byte))) of_byte_.push_back(*id);
  if (of_byte_.size() != 256) of_byte_.clear();
}

std::unique_ptr<TokenModel::Scratch> Unigram::scratch() const { return std::make_unique<Memory>(); }

void Unigram::find_best_path(std::string_view word, Memory& memory) const {
  auto& ends = memory.ends;
  ends.assign(word.size() + 1, {});
  const auto offer = [&](std::size_t end, double score, std::int32_t id, std::size_t begin) {
    Node& node = ends[end];
    if (node.begin < 0 || score > node.score) node = {score, id, static_cast<std::int32_t>(begin)};
  };
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t size = utf8_length(word[at]);
    const double score = ends[at].score;
    bool has_single = false;
    trie_.find_all(word, at, [&](std::int32_t id, std::size_t length) {
      offer(at + length, score + scores_[static_cast<std::size_t>(id)], id, at);
      has_single = has_single || length == size;
    });
    if (!has_single) offer(at + size, score + unknown_score_, -1, at);
    at += size;
  }
}

void Unigram::put(std::string_view text, std::int32_t id, std::vector<std::int32_t>& ids) const {
  if (id >= 0 && id != options_.unknown) return ids.push_back(id);
  if (const auto found = vocabulary_->find(text)) return ids.push_back(*found);
  if (!of_byte_.empty()) {
    for (const char c : text) ids.push_back(of_byte_[static_cast<unsigned char>(c)]);
  } else if (options_.unknown) {
    ids.push_back(*options_.unknown);
  } else {
    throw Error(ErrorKind::input, fmt::format("the tokenizer has no piece for {}, and none for unknown text (unk_id)", text));
  }
}

void Unigram::encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const {
  if (word.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    throw Error(ErrorKind::input, "a word of 2 GiB or more cannot be tokenized; split the text");
  auto& memory = static_cast<Memory&>(scratch);
  find_best_path(word, memory);
  memory.path.clear();
  const auto is_unknown = [this](std::int32_t id) { return id < 0 || id == options_.unknown; };
  for (std::size_t end = word.size(); end > 0;) {
    const Node& node = memory.ends[end];
    end = static_cast<std::size_t>(node.begin);
    if (!memory.path.empty() && is_unknown(node.id) && is_unknown(memory.path.back().second)) {
      memory.path.back().first = end;
    } else {
      memory.path.emplace_back(end, node.id);
    }
  }
  for (auto piece = memory.path.rbegin(); piece != memory.path.rend(); ++piece) {
    const std::size_t end = std::next(piece) == memory.path.rend() ? word.size() : std::next(piece)->first;
    put(word.substr(piece->first, end - piece->first), piece->second, ids);
  }
}

}  // namespace pipetrain
