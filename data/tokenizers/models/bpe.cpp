#include "data/tokenizers/models/bpe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "data/tokenizers/text/utf8.hpp"
#include "data/tokenizers/transforms/byte_level.hpp"

namespace pipetrain {
namespace {

constexpr std::size_t most_searched = 40;  // symbols; a heap is faster for more

// A pair that could be merged when it was pushed.
struct Candidate {
  MergeTable::Rule rule;
  std::int32_t at;
  // For std::push_heap: the largest comes first.
  bool operator<(const Candidate& other) const {
    return rule.rank != other.rule.rank ? rule.rank > other.rule.rank : at > other.at;
  }
};

}  // namespace

struct Bpe::Memory : Scratch {
  std::vector<std::int32_t> symbols;
  std::string buffer;
  // For long words: a list of the symbols, as indices of adjacent ones, and the heap.
  std::vector<std::int32_t> before, after;
  std::vector<Candidate> heap;
};

Bpe::Bpe(std::shared_ptr<const Vocabulary> vocabulary, MergeTable merges, BpeOptions options)
    : vocabulary_(std::move(vocabulary)), merges_(std::move(merges)), options_(std::move(options)) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::string name =
        options_.byte_level ? to_utf8(character_of_byte(static_cast<std::uint8_t>(byte))) : fmt::format("<0x{:02X}>", byte);
    of_byte_[byte] = vocabulary_->find(name).value_or(-1);
  }
  if (!options_.ignore_merges || !options_.byte_level) return;
  for (std::int32_t id = 0; id < vocabulary_->size(); ++id)
    if (const auto bytes = bytes_of_piece(vocabulary_->piece(id)); bytes && vocabulary_->has(id)) words_.add(*bytes, id);
}

std::unique_ptr<TokenModel::Scratch> Bpe::scratch() const { return std::make_unique<Memory>(); }

void Bpe::encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const {
  if (options_.ignore_merges) {
    if (const auto id = (options_.byte_level ? words_ : *vocabulary_).find(word)) return ids.push_back(*id);
  }
  auto& memory = static_cast<Memory&>(scratch);
  memory.symbols.clear();
  options_.byte_level ? begin_bytes(word, memory) : begin_characters(word, memory);
  memory.symbols.size() <= most_searched ? merge_short(memory.symbols) : merge_long(memory);
  ids.insert(ids.end(), memory.symbols.begin(), memory.symbols.end());
}

void Bpe::begin_bytes(std::string_view word, Memory& memory) const {
  bool unknown = false;  // true when the last one was unknown
  for (const char c : word) {
    const std::int32_t id = of_byte_[static_cast<unsigned char>(c)];
    if (id < 0 && options_.unknown && !(unknown && options_.fuse_unknown)) memory.symbols.push_back(*options_.unknown);
    if (id >= 0) memory.symbols.push_back(id);
    unknown = id < 0;
  }
}

void Bpe::begin_characters(std::string_view word, Memory& memory) const {
  bool unknown = false;  // an unknown character that is not yet appended; bytes do not end its run
  const auto put_unknown = [&] {
    if (std::exchange(unknown, false)) memory.symbols.push_back(*options_.unknown);
  };
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t size = utf8_length(word[at]);
    const std::string_view character = word.substr(at, size);
    const auto id = find_character(character, at == 0, at + size == word.size(), memory.buffer);
    at += size;
    if (id) {
      put_unknown();
      memory.symbols.push_back(*id);
    } else if (!(options_.byte_fallback && put_bytes(character, memory.symbols)) && options_.unknown) {
      if (!options_.fuse_unknown) put_unknown();
      unknown = true;
    }
  }
  put_unknown();
}

std::optional<std::int32_t> Bpe::find_character(std::string_view character, bool first, bool last, std::string& buffer) const {
  const bool prefixed = !first && !options_.continuing_prefix.empty(), suffixed = last && !options_.end_suffix.empty();
  if (!prefixed && !suffixed) return vocabulary_->find(character);
  buffer.clear();
  if (prefixed) buffer += options_.continuing_prefix;
  buffer += character;
  if (suffixed) buffer += options_.end_suffix;
  return vocabulary_->find(buffer);
}

bool Bpe::put_bytes(std::string_view character, std::vector<std::int32_t>& symbols) const {
  const auto id_of = [this](char c) { return of_byte_[static_cast<unsigned char>(c)]; };
  if (std::any_of(character.begin(), character.end(), [&](char c) { return id_of(c) < 0; })) return false;
  std::transform(character.begin(), character.end(), std::back_inserter(symbols), id_of);
  return true;
}

void Bpe::merge_short(std::vector<std::int32_t>& symbols) const {
  std::array<MergeTable::Rule, most_searched> rules;  // the rule of each symbol with the next
  std::size_t count = symbols.size();
  if (count < 2) return;
  for (std::size_t i = 0; i + 1 < count; ++i) rules[i] = merges_.find(symbols[i], symbols[i + 1]);
  while (true) {
    std::size_t best = count;
    for (std::size_t i = 0; i + 1 < count; ++i)
      if (rules[i].id >= 0 && (best == count || rules[i].rank < rules[best].rank)) best = i;
    if (best == count) break;
    symbols[best] = rules[best].id;
    std::copy(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 2, symbols.begin() + static_cast<std::ptrdiff_t>(count),
              symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    std::copy(rules.begin() + best + 1, rules.begin() + count - 1, rules.begin() + best);
    --count;
    if (best > 0) rules[best - 1] = merges_.find(symbols[best - 1], symbols[best]);
    if (best + 1 < count) rules[best] = merges_.find(symbols[best], symbols[best + 1]);
  }
  symbols.resize(count);
}

void Bpe::merge_long(Memory& memory) const {
  auto& [symbols, buffer, before, after, heap] = memory;
  const auto count = static_cast<std::int32_t>(symbols.size());
  before.resize(symbols.size());
  after.resize(symbols.size());
  heap.clear();
  const auto place = [](std::int32_t at) { return static_cast<std::size_t>(at); };
  const auto rule_at = [&](std::int32_t at) { return merges_.find(symbols[place(at)], symbols[place(after[place(at)])]); };
  for (std::int32_t at = 0; at < count; ++at) before[place(at)] = at - 1, after[place(at)] = at + 1;
  for (std::int32_t at = 0; at + 1 < count; ++at)
    if (const auto rule = rule_at(at); rule.id >= 0) heap.push_back({rule, at});
  std::make_heap(heap.begin(), heap.end());
  const auto consider = [&](std::int32_t at) {
    if (at < 0 || after[place(at)] == count) return;
    const auto rule = rule_at(at);
    if (rule.id < 0) return;
    heap.push_back({rule, at});
    std::push_heap(heap.begin(), heap.end());
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const auto [rule, at] = heap.back();
    heap.pop_back();
    // The candidate is stale if a symbol of the pair is gone or has changed.
    if (symbols[place(at)] < 0 || after[place(at)] == count || rule_at(at).id != rule.id) continue;
    const std::int32_t gone = after[place(at)], next = after[place(gone)];
    symbols[place(at)] = rule.id;
    symbols[place(gone)] = -1;
    after[place(at)] = next;
    if (next < count) before[place(next)] = at;
    consider(at);
    consider(before[place(at)]);
  }
  std::erase(symbols, -1);
}

}  // namespace pipetrain
