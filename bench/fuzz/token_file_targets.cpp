#include <cstring>
#include <sstream>
#include <stdexcept>

#include "bench/fuzz/target.hpp"
#include "core/checksum.hpp"
#include "data/formats/foreign_token_files.hpp"
#include "data/formats/token_file.hpp"

namespace pipetrain::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t vocabulary = 1000;

void use_stream(const TokenStream& stream) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(std::min<std::int64_t>(stream.size(), 1000)));
  stream.read(stream.size() - std::ssize(tokens), tokens);
  for (const std::int32_t token : tokens)
    if (token < 0 || token >= vocabulary) throw std::logic_error("a token outside of the vocabulary was read");
  stream.content(content_block);
}

template <class Number>
std::string raw(std::initializer_list<Number> numbers) {
  std::string bytes;
  for (const Number number : numbers) bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  return bytes;
}

const std::string nine = raw<std::uint16_t>({1, 2, 3, 4, 5, 6, 7, 8, 9});

std::string token_file() {
  std::ostringstream out;
  TokenFileWriter writer(out, {vocabulary, 0, 7});
  const std::vector<std::int32_t> ids = {1, 2, 3, 4, 5, 999};
  const std::vector<std::size_t> ends = {3, 6};
  writer.add(ids, ends);
  writer.finish();
  return out.str();
}

// Writes correct checksums, so that the parser reads on.
std::string with_file_checksums(Random&, std::string file) {
  constexpr std::size_t content_at = 64 - 8, header_at = 120, header = 128;
  if (file.size() < header) return file;
  const auto put = [&](std::size_t at, std::uint64_t sum) { std::memcpy(file.data() + at, &sum, sizeof sum); };
  put(content_at, checksum(file.data() + header, file.size() - header));
  put(header_at, checksum(file.data(), header_at));
  return file;
}

Target token_file_target(const std::string& name, std::string seed, std::function<void(std::string_view)> run) {
  return {name, {std::move(seed)}, {std::string(4, '\xFF'), std::string(8, '\0'), nine}, std::move(run), nullptr};
}

}  // namespace

std::vector<Target> token_file_targets(const fs::path& folder) {
  Target ours = token_file_target("tokens", token_file(), [file = folder / "x.tokens"](std::string_view input) {
    put_file(file, input);
    use_stream(*open_token_file(file, vocabulary));
  });
  ours.finish = with_file_checksums;
  const std::string index = std::string("MMIDIDX\0\0", 9) + raw<std::uint64_t>({1}) + "\x08" + raw<std::uint64_t>({2, 2}) +
                            raw<std::int32_t>({3, 6}) + raw<std::int64_t>({0, 6, 0, 2});
  Target megatron = token_file_target("megatron", index, [folder](std::string_view input) {
    put_file(folder / "m.idx", input);
    put_file(folder / "m.bin", nine);
    use_stream(*open_megatron_file(folder / "m.bin", vocabulary));
  });
  Target llmc = token_file_target("llmc", raw<std::int32_t>({20240520, 1, 9}) + std::string(253 * 4, '\0') + nine,
                                  [file = folder / "l.bin"](std::string_view input) {
                                    put_file(file, input);
                                    use_stream(*open_llmc_file(file, vocabulary));
                                  });
  Target datatrove = token_file_target("datatrove", raw<std::uint64_t>({3, 9}), [folder](std::string_view input) {
    put_file(folder / "d.ds", nine);
    put_file(folder / "d.ds.index", input);
    use_stream(*open_datatrove_file(folder / "d.ds", vocabulary));
  });
  return {ours, megatron, llmc, datatrove};
}

}  // namespace pipetrain::fuzz
