#include "data/tokenizers/models/models.hpp"

#include <fmt/format.h>

#include "data/tokenizers/models/bpe.hpp"
#include "data/tokenizers/models/bpe_cuts.hpp"
#include "data/tokenizers/models/unigram.hpp"

namespace pipetrain {
namespace {

BpeOptions read_bpe_options(const Component& model, const TokenizerFile& file, bool byte_level) {
  if (const auto* dropout = model.find("dropout"); dropout != nullptr && *dropout != 0.0)
    model.fail_unsupported("dropout other than 0 is not supported");
  BpeOptions options;
  options.byte_level = byte_level;
  options.ignore_merges = model.flag("ignore_merges", false);
  options.byte_fallback = model.flag("byte_fallback", false);
  options.fuse_unknown = model.flag("fuse_unk", false);
  options.continuing_prefix = model.text_or("continuing_subword_prefix", "");
  options.end_suffix = model.text_or("end_of_word_suffix", "");
  if (model.find("unk_token") != nullptr) {
    const std::string name = model.text("unk_token");
    options.unknown = file.vocabulary->find(name);
    if (!options.unknown) model.fail(fmt::format("\"unk_token\" {} is not in the vocabulary", name));
  }
  if (byte_level && (options.byte_fallback || !options.continuing_prefix.empty() || !options.end_suffix.empty()))
    model.fail_unsupported("byte_fallback, continuing_subword_prefix and end_of_word_suffix are not supported after ByteLevel");
  return options;
}

std::unique_ptr<TokenModel> make_bpe(const Component& model, const TokenizerFile& file, bool byte_level) {
  BpeOptions options = read_bpe_options(model, file, byte_level);
  if (!file.has_merges) model.fail("\"merges\" is missing");
  MergeTable table;
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
  std::string merged;
  for (std::size_t rank = 0; rank < file.merges.size(); ++rank) {
    const auto [left, right] = file.merges[rank];
    const auto known = [&](std::string_view piece) {
      const auto id = file.vocabulary->find(piece);
      if (!id) model.fail(fmt::format("merge {} ({} {}): the vocabulary has no {}", rank, left, right, piece));
      return *id;
    };
    const std::size_t prefix = options.continuing_prefix.size();
    if (right.size() < prefix)
      model.fail(fmt::format("merge {} ({} {}): the second is shorter than the prefix", rank, left, right));
    merged.assign(left);
    merged += right.substr(prefix);
    pairs.emplace_back(known(left), known(right));
    table.add(pairs.back().first, pairs.back().second, {static_cast<std::uint32_t>(rank), known(merged)});
  }
  auto cuts = find_bpe_cuts(*file.vocabulary, options, pairs);
  auto bpe = std::make_unique<Bpe>(file.vocabulary, std::move(table), std::move(options));
  bpe->set_cuts(std::move(cuts));
  return bpe;
}

std::unique_ptr<TokenModel> make_unigram(const Component& model, const TokenizerFile& file, bool byte_level) {
  if (byte_level) model.fail_unsupported("a Unigram model after ByteLevel is not supported");
  if (file.scores.empty()) model.fail("\"vocab\" is not a list of [\"piece\", score]");
  Unigram::Options options;
  options.byte_fallback = model.flag("byte_fallback", false);
  if (model.find("unk_id") != nullptr)
    options.unknown = static_cast<std::int32_t>(model.integer("unk_id", 0, file.vocabulary->size() - 1));
  return std::make_unique<Unigram>(file.vocabulary, file.scores, options);
}

}  // namespace

std::unique_ptr<TokenModel> make_model(const Component& model, const TokenizerFile& file, bool byte_level) {
  if (model.type() != "BPE" && model.type() != "Unigram") model.fail_type("BPE and Unigram");
  if (file.vocabulary->size() == 0) model.fail("its vocabulary is empty");
  if (model.type() == "Unigram") return make_unigram(model, file, byte_level);
  if (!file.scores.empty()) model.fail("\"vocab\" is not an object of pieces and their ids");
  return make_bpe(model, file, byte_level);
}

}  // namespace pipetrain
