// Files of tokens are read in place, whichever program wrote them, and wrong ones are refused with the offset of the fault.
#include <sstream>

#include "catch.hpp"
#include "core/checksum.hpp"
#include "core/error.hpp"
#include "data/formats/token_file.hpp"
#include "data/input_error.hpp"
#include "data/open_dataset.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;

namespace {

template <class Number>
std::string raw(std::initializer_list<Number> numbers) {
  std::string bytes;
  for (const Number number : numbers) bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  return bytes;
}

std::string u16(std::initializer_list<std::uint16_t> ids) { return raw<std::uint16_t>(ids); }
std::string u64(std::initializer_list<std::uint64_t> numbers) { return raw<std::uint64_t>(numbers); }

std::string token_file(const std::vector<std::int32_t>& ids, std::int64_t vocabulary) {
  std::ostringstream out;
  TokenFileWriter writer(out, {vocabulary, 0, 7});
  const std::vector<std::size_t> ends = {3, ids.size()};
  writer.add(ids, ends);
  writer.finish();
  return out.str();
}

struct Index {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  std::uint64_t version = 1;
  std::uint8_t type = 8;
  std::uint64_t sequences = 2, documents = 3;
  std::vector<std::int32_t> lengths = {3, 6};
  std::vector<std::int64_t> pointers = {0, 6}, ends = {0, 1, 2};
  std::string bytes() const {
    std::string all = magic + u64({version}) + std::string(1, static_cast<char>(type)) + u64({sequences, documents});
    for (const auto length : lengths) all += raw<std::int32_t>({length});
    for (const auto pointer : pointers) all += raw<std::int64_t>({pointer});
    for (const auto end : ends) all += raw<std::int64_t>({end});
    return all;
  }
};

std::string llmc(std::int32_t magic, std::int32_t version, std::int32_t count, const std::string& ids) {
  return raw<std::int32_t>({magic, version, count}) + std::string(253 * 4, '\0') + ids;
}

DatasetOptions token_file_options(const fs::path& path) {
  DatasetOptions options;
  options.inputs = {{path, std::nullopt}};
  options.sequence_length = 4;
  options.vocabulary = 100;
  options.shuffle = false;
  return options;
}

std::string token_file_error(const TempFolder& folder, const fs::path& path) {
  return test::input_error(folder, [&] { open_dataset(token_file_options(path)); });
}

const std::string nine = u16({1, 2, 3, 4, 5, 6, 7, 8, 9});

}  // namespace

TEST_CASE("token files of every kind are read in place") {
  const TempFolder folder;
  const std::string nine_wide = raw<std::uint32_t>({1, 2, 3, 4, 5, 6, 7, 8, 9});
  Index wide;
  wide.type = 4;
  wide.pointers = {0, 12};
  folder.write("megatron.idx", Index().bytes());
  folder.write("wide.idx", wide.bytes());
  folder.write("shard.ds.index", u64({3, 9}));
  folder.write("wide.ds.index", u64({3, 9}));
  for (const fs::path& path :
       {folder.write("ours.tokens", token_file({1, 2, 3, 4, 5, 6, 7, 8, 9}, 100)),
        folder.write("large.tokens", token_file({1, 2, 3, 4, 5, 6, 7, 8, 9}, 100'000)), folder.write("megatron.bin", nine),
        folder.write("wide.bin", nine_wide), folder.write("gpt2.bin", llmc(20240520, 1, 9, nine)),
        folder.write("llama3.bin", llmc(20240801, 7, 9, nine_wide)), folder.write("shard.ds", nine),
        folder.write("wide.ds", nine_wide)}) {
    INFO(path);
    const auto dataset = open_dataset(token_file_options(path));
    CHECK(dataset->size() == 2);
    CHECK(dataset->read(0) == std::vector<std::int32_t>{1, 2, 3, 4, 5});
    CHECK(dataset->read(1) == std::vector<std::int32_t>{5, 6, 7, 8, 9});
  }
}

TEST_CASE("token files follow each other without anything between") {
  const TempFolder folder;
  folder.write("all/a.tokens", token_file({1, 2, 3, 4, 5}, 100));
  folder.write("all/b.tokens", token_file({6, 7, 8, 9}, 100));
  const auto dataset = open_dataset(token_file_options(folder.path() / "all"));
  CHECK(dataset->read(1) == std::vector<std::int32_t>{5, 6, 7, 8, 9});
}

TEST_CASE("wrong token files of ours are refused") {
  const TempFolder folder;
  const std::string good = token_file({1, 2, 3, 4, 5, 6, 7, 8, 9}, 100);
  const auto error_with = [&](std::size_t at, const std::string& bytes) {
    std::string changed = good;
    changed.replace(at, bytes.size(), bytes);
    return token_file_error(folder, folder.write("x.tokens", changed));
  };
  // Writes a header with a correct checksum.
  const auto error_with_sum = [&](std::size_t at, const std::string& bytes) {
    std::string changed = good;
    changed.replace(at, bytes.size(), bytes);
    const std::uint64_t sum = checksum(changed.data(), 120);
    changed.replace(120, 8, u64({sum}));
    return token_file_error(folder, folder.write("x.tokens", changed));
  };
  CHECK(token_file_error(folder, folder.write("x.tokens", good)) == "no error");
  CHECK_THAT(token_file_error(folder, folder.write("x.tokens", "")), Contains("x.tokens: is empty"));
  CHECK_THAT(token_file_error(folder, folder.write("x.tokens", good.substr(0, 127))), Contains("x.tokens: is too short"));
  CHECK_THAT(error_with(0, "X"), Contains("x.tokens: does not begin with PIPETOKS"));
  CHECK_THAT(error_with(8, raw<std::uint32_t>({2})), Contains("x.tokens: is a token file of version 2"));
  CHECK_THAT(error_with(16, "x"), Contains("its header is damaged"));
  CHECK_THAT(error_with(100, "x"), Contains("its header is damaged"));
  CHECK_THAT(error_with_sum(12, raw<std::uint32_t>({3})), Contains("its ids have 3 bytes"));
  CHECK_THAT(error_with_sum(16, u64({0})), Contains("has fewer ids or documents"));
  CHECK_THAT(error_with_sum(16, u64({~std::uint64_t{0}})), Contains("has fewer ids or documents"));
  CHECK_THAT(error_with_sum(16, u64({1000})), Contains("has fewer ids or documents"));
  CHECK_THAT(error_with_sum(24, u64({~std::uint64_t{0}})), Contains("has fewer ids or documents"));
  CHECK_THAT(error_with_sum(24, u64({0})), Contains("has fewer ids or documents"));
  CHECK_THAT(error_with_sum(24, u64({3})), Contains("its header describes"));
  CHECK_THAT(token_file_error(folder, folder.write("x.tokens", good + "x")), Contains("its header describes"));
  CHECK_THAT(token_file_error(folder, folder.write("x.tokens", good.substr(0, good.size() - 8))),
             Contains("its header describes"));
  CHECK_THAT(error_with(130, "x"), Contains("its ids are damaged"));
  CHECK_THAT(error_with(good.size() - 1, "x"), Contains("its ids are damaged"));
  CHECK_THAT(token_file_error(folder, folder.write("x.tokens", token_file({1, 2, 3, 4, 100, 6}, 200))),
             Contains("x.tokens: token 4 is 100, outside the model's vocabulary of 100"));
  CHECK_THAT(token_file_error(folder, folder.write("x.tokens", token_file({1, 2, 3, 4, -1, 6}, 100'000))),
             Contains("x.tokens: token 4 is 4294967295, outside"));
  CHECK_THAT(token_file_error(folder, folder.write("x.tokens", token_file({1, 2, 3, 4}, 100))),
             Contains("too few for one sample"));
}

TEST_CASE("wrong files of Megatron-LM are refused") {
  const TempFolder folder;
  const auto error_for = [&](const Index& index, const std::string& ids) {
    folder.write("x.idx", index.bytes());
    return token_file_error(folder, folder.write("x.bin", ids));
  };
  const auto error_with = [&](const auto& change) {
    Index index;
    change(index);
    return error_for(index, nine);
  };
  CHECK(error_for(Index(), nine) == "no error");
  CHECK_THAT(error_with([](Index& i) { i.magic[0] = 'X'; }), Contains("x.idx: does not begin with MMIDIDX"));
  CHECK_THAT(error_with([](Index& i) { i.magic[8] = 'X'; }), Contains("x.idx: does not begin with MMIDIDX"));
  CHECK_THAT(error_with([](Index& i) { i.version = 2; }), Contains("x.idx: is an index of version 2"));
  CHECK_THAT(error_with([](Index& i) { i.type = 5; }), Contains("x.idx: its ids are of type 5"));
  CHECK_THAT(error_with([](Index& i) { i.sequences = 3; }), Contains("x.idx: has"));
  CHECK_THAT(error_with([](Index& i) { i.sequences = 0; }), Contains("x.idx: has"));
  CHECK_THAT(error_with([](Index& i) { i.sequences = ~std::uint64_t{0}; }), Contains("x.idx: has"));
  CHECK_THAT(error_with([](Index& i) { i.documents = std::uint64_t{1} << 61; }), Contains("x.idx: has"));
  CHECK_THAT(error_with([](Index& i) { i.documents = 2; }), Contains("x.idx: has"));
  CHECK_THAT(error_with([](Index& i) { i.lengths[0] = -1; }), Contains("x.idx: sequence 0 has -1 ids"));
  CHECK_THAT(error_with([](Index& i) { i.lengths[0] = 4; }), Contains("x.idx: sequence 1 has 6 ids from byte 6"));
  CHECK_THAT(error_with([](Index& i) { i.pointers[0] = 2; }), Contains("x.idx: sequence 0 has 3 ids from byte 2"));
  CHECK_THAT(error_with([](Index& i) { i.pointers[1] = -6; }), Contains("from byte -6"));
  CHECK_THAT(error_with([](Index& i) { i.pointers[1] = 8; }), Contains("from byte 8 on, not from 6"));
  CHECK_THAT(error_with([](Index& i) { i.lengths = {0, 0}, i.pointers = {0, 0}; }), Contains("says that there are no ids"));
  CHECK_THAT(error_for(Index(), nine.substr(2)), Contains("x.bin: has 16 bytes of ids, but x.idx says 9 ids of 2 bytes"));
  CHECK_THAT(error_for(Index(), nine + "xx"), Contains("x.bin: has 20 bytes of ids"));
  CHECK_THAT(error_for(Index(), nine + "x"), Contains("x.bin: has 19 bytes of ids"));
  CHECK_THAT(error_for(Index(), u16({1, 2, 3, 4, 5, 6, 7, 8, 100})), Contains("x.bin: token 8 is 100, outside"));
  folder.write("y.idx", Index().bytes().substr(0, 33));
  CHECK_THAT(token_file_error(folder, folder.write("y.bin", nine)), Contains("y.idx: does not begin with MMIDIDX"));
  folder.write("z.idx", "");
  CHECK_THAT(token_file_error(folder, folder.write("z.bin", nine)), Contains("z.idx: is empty"));
}

TEST_CASE("wrong files of llm.c and datatrove are refused") {
  const TempFolder folder;
  const auto bin = [&](const std::string& bytes) { return token_file_error(folder, folder.write("x.bin", bytes)); };
  CHECK_THAT(bin(nine), Contains("x.bin: there is no index .idx next to it"));
  CHECK_THAT(bin("ab"), Contains("x.bin: there is no index .idx next to it"));
  CHECK_THAT(bin(""), Contains("x.bin: is empty"));
  CHECK_THAT(bin(llmc(20240520, 2, 9, nine)), Contains("of version 2; version 1 is read"));
  CHECK_THAT(bin(llmc(20240801, 1, 9, nine)), Contains("of version 1; version 7 is read"));
  CHECK_THAT(bin(llmc(20240520, 1, 9, nine).substr(0, 1000)), Contains("is shorter than the 1024 bytes"));
  CHECK_THAT(bin(llmc(20240520, 1, 10, nine)), Contains("x.bin: has 18 bytes of ids, but x.bin says 10 ids of 2 bytes"));
  CHECK_THAT(bin(llmc(20240520, 1, 8, nine)), Contains("says 8 ids"));
  CHECK_THAT(bin(llmc(20240520, 1, -9, nine)), Contains("says that there are no ids"));
  CHECK_THAT(bin(llmc(20240520, 1, 0, "")), Contains("says that there are no ids"));
  CHECK_THAT(bin(llmc(20240801, 7, 9, nine)), Contains("says 9 ids of 4 bytes"));
  CHECK_THAT(bin(llmc(20240520, 1, 9, u16({1, 2, 3, 4, 5, 6, 7, 8, 65535}))), Contains("token 8 is 65535, outside"));

  const auto ds = [&](const std::string& bytes, const std::string& index) {
    folder.write("x.ds.index", index);
    return token_file_error(folder, folder.write("x.ds", bytes));
  };
  CHECK_THAT(token_file_error(folder, folder.write("alone.ds", nine)),
             Contains("alone.ds: there is no alone.ds.index next to it"));
  CHECK_THAT(ds(nine, ""), Contains("x.ds.index: is empty"));
  CHECK_THAT(ds("", u64({9})), Contains("x.ds: is empty"));
  CHECK_THAT(ds(nine, "1234"), Contains("x.ds.index: has 4 bytes"));
  CHECK_THAT(ds(nine, u64({9, 3})), Contains("x.ds.index: document 1 ends before"));
  CHECK_THAT(ds(nine, u64({3, 8})), Contains("x.ds: has 18 bytes, but x.ds.index says 8 ids"));
  CHECK_THAT(ds(nine, u64({0})), Contains("says 0 ids"));
  CHECK_THAT(ds(nine, u64({~std::uint64_t{0}})), Contains("x.ds: has 18 bytes"));
  CHECK_THAT(ds(nine, u64({std::uint64_t{1} << 63})), Contains("x.ds: has 18 bytes"));
  CHECK_THAT(ds(nine + "x", u64({9})), Contains("x.ds: has 19 bytes"));
  CHECK_THAT(ds(u16({1, 2, 3, 4, 5, 6, 7, 8, 100}), u64({9})), Contains("x.ds: token 8 is 100, outside"));
}
