#include "model/weights/safetensors.hpp"

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "catch.hpp"
#include "core/error.hpp"
#include "model/error_text.hpp"
#include "temp_folder.hpp"

namespace pipetrain {
namespace {

using nlohmann::json;

// Returns a file with this header length, header text and data.
std::string file_bytes(std::uint64_t length, const std::string& header, const std::string& data) {
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + header + data;
}
std::string file_bytes(const std::string& header, std::size_t data_bytes) {
  return file_bytes(header.size(), header, std::string(data_bytes, '\0'));
}
json entry(const std::string& dtype, const json& shape, const json& offsets) {
  return {{"dtype", dtype}, {"shape", shape}, {"data_offsets", offsets}};
}

// Returns the error of opening a file of these bytes, without the file's name.
std::string error_of(const std::string& bytes) {
  const TempFolder folder;
  const std::filesystem::path file = folder.write("x.safetensors", bytes);
  const std::string text = input_error([&] { SafetensorsReader(file).check_coverage(); });
  if (text.empty()) return "";
  REQUIRE(text.starts_with(file.string() + ": "));
  const std::string why = text.substr(file.string().size() + 2), remedy = "; copy the file again, or save the model again";
  if (why.starts_with("header: ")) return why;  // of the reader of JSON
  REQUIRE(why.ends_with(remedy));
  return why.substr(0, why.size() - remedy.size());
}
std::string error_of(const json& header, std::size_t data_bytes) { return error_of(file_bytes(header.dump(), data_bytes)); }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("safetensors: what is written reads back, whole and in parts") {
  const TempFolder folder;
  const std::filesystem::path file = folder.path() / "x.safetensors";
  const std::vector<float> matrix{1, -2, 3.5F, 1e-40F, 1e38F, -0.0F}, vector{7, 8};
  SafetensorsWriter writer(file, {{"matrix", {2, 3}}, {"vector", {2}}, {"empty", {0, 4}}});
  for (const auto* values : {&matrix, &vector, &vector}) writer.write(values->data());
  writer.finish();

  const SafetensorsReader reader(file);
  CHECK(reader.entries().size() == 3);
  CHECK(reader.entries().at("matrix").begin % 8 == 0);
  CHECK_NOTHROW(reader.check("matrix", {2, 3}));
  CHECK_NOTHROW(reader.check("empty", {0, 4}));
  std::vector<float> read(6);
  reader.read("matrix", 0, 6, read.data());
  CHECK(std::memcmp(read.data(), matrix.data(), sizeof(float) * 6) == 0);
  reader.read("matrix", 2, 3, read.data());
  CHECK(std::vector<float>(read.begin(), read.begin() + 3) == std::vector<float>{3.5F, 1e-40F, 1e38F});
}

TEST_CASE("safetensors: every half-precision number converts exactly") {
  std::vector<std::uint16_t> bits(65536);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  std::string data(bits.size() * 2, '\0');
  std::memcpy(data.data(), bits.data(), data.size());
  const std::string dtype = GENERATE("F16", "BF16");
  const std::string header = json{{"all", entry(dtype, {65536}, {0, 131072})}}.dump();
  const TempFolder folder;
  const SafetensorsReader reader(folder.write("x.safetensors", file_bytes(header.size(), header, data)));
  std::vector<float> values(bits.size());
  reader.read("all", 0, 65536, values.data());

  const int exponent_bits = dtype == "F16" ? 5 : 8, fraction_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
  std::size_t wrong = 0;
  for (int i = 0; i < 65536; ++i) {
    const int exponent = (i & 0x7fff) >> fraction_bits, fraction = i & ((1 << fraction_bits) - 1);
    const float value = values[static_cast<std::size_t>(i)];
    double expected = exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                                    : std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    if (exponent == top) expected = fraction == 0 ? HUGE_VAL : std::nan("");
    const bool same =
        std::isnan(expected) ? std::isnan(value) : std::fabs(value) == expected && std::signbit(value) == (i > 32767);
    if (!same) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("safetensors: several threads read one file") {
  const TempFolder folder;
  std::vector<float> values(100'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  SafetensorsWriter writer(folder.path() / "x.safetensors", {{"v", {100'000}}});
  writer.write(values.data());
  writer.finish();
  const SafetensorsReader reader(folder.path() / "x.safetensors");
  std::vector<float> read(values.size());
  std::vector<std::thread> threads;
  for (int part = 0; part < 4; ++part) {
    threads.emplace_back([&, part] { reader.read("v", 25'000 * part, 25'000, read.data() + 25'000 * part); });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(read == values);
}

TEST_CASE("safetensors: broken files end in one line that names file and tensor") {
  const json good{{"a", entry("F32", {2, 2}, {0, 16})}};
  CHECK(error_of(good, 16).empty());

  CHECK(error_of("") == "truncated: 0 bytes are too few for a safetensors file");
  CHECK(error_of("1234567") == "truncated: 7 bytes are too few for a safetensors file");
  CHECK(error_of(file_bytes(1000, "{}", "")) ==
        "its header claims 1000 bytes and the file has 10: truncated, or not a safetensors file");
  CHECK(contains(error_of(file_bytes(~std::uint64_t{0}, "{}", "")), "its header claims 18446744073709551615 bytes, more than"));
  CHECK(contains(error_of(file_bytes(100'000'001, "{}", "")), "more than the 100000000 allowed"));
  CHECK(contains(error_of(file_bytes("{\"a\": ", 0)), "header: not valid JSON"));
  CHECK(contains(error_of(file_bytes("\xff\xfe\x01", 0)), "header: not valid JSON"));
  CHECK(error_of(file_bytes("[]", 0)) == "header: not a JSON object; correct the file, or copy it again");
  CHECK(contains(error_of(file_bytes("{\"a\":" + std::string(100'000, '['), 0)), "nested deeper"));
  const std::string pair = good.dump().substr(1, good.dump().size() - 2);
  CHECK(error_of(file_bytes("{" + pair + "," + pair + "}", 16)) == "header: key \"a\" appears twice; keep one");

  CHECK(contains(error_of(file_bytes("{" + pair + "}" + std::string(1, '\0') + "rest", 16)),
                 "header: not valid JSON: it holds a NUL byte"));
  CHECK(error_of({{"a", entry("F32", json(std::vector<int>(65, 1)), {0, 4})}}, 4) ==
        "tensor a: its shape has 65 dimensions, more than the 64 supported");

  CHECK(error_of({{"a", 3}}, 0) == "tensor a: its header entry is not an object");
  CHECK(error_of({{"a", {{"shape", {1}}, {"data_offsets", {0, 4}}}}}, 4) == "tensor a: no dtype");
  CHECK(error_of({{"a", entry("F31", {1}, {0, 4})}}, 4) == "tensor a: unknown dtype \"F31\"");
  for (const json& shape : {json(4), json{-1}, json{1.5}, json{"1"}, json{~std::uint64_t{0}}, json(nullptr)}) {
    CHECK(error_of({{"a", entry("F32", shape, {0, 4})}}, 4) == "tensor a: its shape is not a list of whole numbers");
  }
  for (const json& offsets : {json(4), json{0}, json{0, 4, 8}, json{-4, 0}, json{0, 4.5}, json(nullptr)}) {
    CHECK(error_of({{"a", entry("F32", {1}, offsets)}}, 4) == "tensor a: its data_offsets are not two whole numbers");
  }
  CHECK(error_of({{"a", entry("F32", {1LL << 32, 1LL << 31}, {0, 16})}}, 16) ==
        "tensor a: the size of shape [4294967296, 2147483648] overflows");
  CHECK(error_of({{"a", entry("F32", {2, 3}, {0, 16})}}, 16) ==
        "tensor a: its data_offsets hold 16 bytes, its shape [2, 3] of F32 needs 24");
  CHECK(error_of(good, 12) ==
        "tensor a: its data_offsets [0, 16] are outside the file's 12 bytes of data: truncated, or damaged");
  CHECK(contains(error_of({{"a", entry("F32", {1}, {4, 0})}}, 4), "are outside"));
  CHECK(contains(error_of({{"a", entry("F32", {1}, {~std::uint64_t{0} - 3, ~std::uint64_t{0}})}}, 4), "are outside"));

  const auto two = [](const json& first, const json& second) {
    return error_of({{"a", entry("F32", {2}, first)}, {"b", entry("F32", {2}, second)}}, 16);
  };
  CHECK(two({0, 8}, {8, 16}).empty());
  CHECK(two({8, 16}, {0, 8}).empty());
  CHECK(two({0, 8}, {4, 12}) == "tensors a and b overlap");
  CHECK(two({8, 16}, {8, 16}) == "8 bytes before tensor a belong to no tensor: its header lacks one, or the file is damaged");
  CHECK(error_of(good, 20) == "4 bytes at the end belong to no tensor: its header lacks one, or the file is damaged");
}

TEST_CASE("safetensors: a tensor that is not as the model needs it is named") {
  const TempFolder folder;
  const json header{{"a", entry("F32", {2}, {0, 8})}, {"ids", entry("I64", {1}, {8, 16})}};
  const std::filesystem::path file = folder.write("x.safetensors", file_bytes(header.dump(), 16));
  const SafetensorsReader reader(file);
  const std::string where = file.string() + ": ";
  CHECK(input_error([&] { reader.check("b", {2}); }) ==
        where + "tensor b is missing; give the weights and the config.json of one model");
  CHECK(input_error([&] {
          reader.check("a", {1, 2});
        }) == where +
                  "tensor a has shape [2], and the model's config.json asks for [1, 2]; give the weights and the "
                  "config.json of one model");
  CHECK(input_error([&] { reader.check("ids", {1}); }) == where + "tensor ids has dtype I64; use F32, F16 or BF16");
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 12);
  std::vector<float> values(2);
  CHECK(input_error([&] { reader.read("a", 0, 2, values.data()); }) ==
        where + "became shorter while it was read; keep other programs from writing to it");
}

TEST_CASE("safetensors: the header's cost is linear in its tensors, as is the writer's") {
  const TempFolder folder;
  const std::filesystem::path file = folder.path() / "x.safetensors";
  std::vector<NamedShape> tensors;
  for (int i = 0; i < 200'000; ++i) tensors.push_back({"model.layers." + std::to_string(i) + ".weight", {0}});
  SafetensorsWriter writer(file, tensors);
  const float none = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) writer.write(&none);
  writer.finish();
  const SafetensorsReader reader(file);
  CHECK(reader.entries().size() == tensors.size());
  CHECK_NOTHROW(reader.check_coverage());
  CHECK_NOTHROW(reader.check("model.layers.199999.weight", {0}));
}

TEST_CASE("safetensors: damaged headers never do worse than an error") {
  const json header{
      {"__metadata__", {{"format", "pt"}}}, {"a", entry("F32", {2, 2}, {0, 16})}, {"b", entry("BF16", {4}, {16, 24})}};
  const std::string good = file_bytes(header.dump(), 24);
  const TempFolder folder;
  std::mt19937 random(1);
  int accepted = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = good;
    for (unsigned changes = random() % 3 + 1; changes > 0; --changes) {
      bytes[random() % bytes.size()] = random() % 2 == 0 ? "0123456789{}[],:\"-"[random() % 18] : static_cast<char>(random());
    }
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    const std::filesystem::path file = folder.write("x.safetensors", bytes);
    try {
      const SafetensorsReader reader(file);
      ++accepted;
      for (const auto& [name, tensor] : reader.entries()) CHECK(tensor.end <= bytes.size());
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input);
    }
  }
  CHECK(accepted > 0);     // changes in the data or in names
  CHECK(accepted < 2000);  // and most are found
}

}  // namespace
}  // namespace pipetrain
