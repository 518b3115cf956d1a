// Every reader needs at most 64 MB besides its result, for the largest and worst files that it accepts or refuses.
#include <cstring>
#include <functional>

#include "actors/training/checkpoint/checkpoint_state.hpp"
#include "actors/training/records/profile.hpp"
#include "apps/options/option_layers.hpp"
#include "apps/train/metrics_file.hpp"
#include "bench/fuzz/heap.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "data/open_dataset.hpp"
#include "model/config/config.hpp"
#include "model/weights/safetensors.hpp"
#include "temp_folder.hpp"
#include "tuning/measured_devices.hpp"

using namespace pipetrain;

namespace {

constexpr std::int64_t allowed = std::int64_t{64} << 20;

// Returns the peak of bytes taken while reading, without those of the result; an error, if any, goes to `error`.
template <class Read>
std::int64_t extra_memory(const Read& read, std::string& error) {
  error.clear();
  fuzz::reset_heap_peak();
  const std::int64_t before = fuzz::heap_bytes();
  try {
    const auto kept = read();
    return fuzz::heap_peak() - fuzz::heap_bytes();
  } catch (const Error& refused) {
    error = refused.what();
  }
  return fuzz::heap_peak() - before;
}

std::string repeated(const std::string& text, std::size_t bytes) {
  std::string result;
  result.reserve(bytes + text.size());
  while (result.size() < bytes) result += text;
  return result;
}

// Returns files of this many bytes that take much more memory once parsed than others of their size.
std::vector<std::string> dense_files(std::size_t bytes) {
  std::vector<std::string> files = {
      "{\"a\":[" + repeated("[],", bytes - 20) + "1]}", "{\"a\":[" + repeated("{},", bytes - 20) + "1]}",
      "{\"a\":[" + repeated("1,", bytes - 20) + "1]}", "{\"a\":\"" + repeated("x", bytes - 20) + "\"}",
      "{\"a\":" + repeated("1", bytes - 20) + "}"};
  std::string members = "{\"a\":{";
  for (int i = 0; members.size() < bytes - 20; ++i) members += "\"" + std::to_string(i) + "\":{},";
  files.push_back(members + "\"\":1}}");
  return files;
}

}  // namespace

TEST_CASE("a header of 98 MB is read within what its tensors take and 64 MB", "[slow]") {
  const TempFolder folder;
  std::string header = "{\"__metadata__\":{\"text\":\"" + std::string(std::size_t{10} << 20, 'x') + "\"}";
  for (int i = 0; header.size() < 98'000'000; ++i)
    header += ",\"model.layers." + std::to_string(i) +
              ".self_attention.a_long_name_of_a_weight\":{\"dtype\":\"F32\",\"shape\":[0,4096],\"data_offsets\":[0,0]}";
  header += "}";
  std::string file(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(file.data(), &length, sizeof length);
  const auto path = folder.write("x.safetensors", file + header);
  std::string().swap(header);
  std::string error;
  CHECK(extra_memory([&] { return SafetensorsReader(path); }, error) < allowed);
  CHECK(error.empty());
}

TEST_CASE("rows of 80 MB are read, or refused, within 64 MB", "[slow]") {
  const TempFolder folder;
  DatasetOptions options;
  options.sequence_length = 4;
  const auto memory = [&](const std::string& begin, const std::string& filler, const std::string& end, std::string& error) {
    options.inputs = {{folder.write("rows.jsonl", begin + repeated(filler, std::size_t{80} << 20) + end), std::nullopt}};
    return extra_memory([&] { return open_dataset(options); }, error);
  };
  std::string error;
  CHECK(memory("{\"input_ids\": [", "1,", "1]}", error) < allowed);
  CHECK(error.find("this row has 41943041 input_ids") != std::string::npos);
  CHECK(memory("{\"text\": \"", "x", "\"}", error) < allowed);
  CHECK(error.find("longer than the 16777216 bytes allowed") != std::string::npos);
  CHECK(memory("{\"more\": [", "{\"a\":[]},", "1], \"text\": \"It was the best of times\"}", error) < allowed);
  CHECK(error.empty());
}

TEST_CASE("small files that grow when they are parsed stay within 64 MB", "[slow]") {
  const TempFolder folder;
  struct Reader {
    const char* name;
    std::size_t bytes;  // the largest file that it accepts
    std::function<bool(const std::filesystem::path&)> read;
  };
  const Reader readers[] = {
      {"config.json", std::size_t{4} << 20, [](const auto& path) { return read_hf_config(path.parent_path()).hidden > 0; }},
      {"profile.json", std::size_t{8} << 20, [](const auto& path) { return read_profile(path).pp > 0; }},
      {"devices.json", std::size_t{1} << 20, [](const auto& path) { return read_measured_devices(path).count > 0; }},
      {"state.json", std::size_t{16} << 20, [](const auto& path) { return read_manifest(path).state.step > 0; }},
      {"run.json", std::size_t{512} << 10,
       [](const auto& path) { return !read_config_file(train_option_table(), path).empty(); }},
      {"run.toml", std::size_t{512} << 10,
       [](const auto& path) { return !read_config_file(train_option_table(), path).empty(); }}};
  for (const Reader& reader : readers) {
    for (std::string& text : dense_files(reader.bytes)) {
      if (std::string(reader.name) == "run.toml") text = "a" + text.replace(text.find(':'), 1, "=").substr(4, text.size() - 5);
      const auto path = folder.write(reader.name, text);
      std::string error;
      CAPTURE(reader.name, text.substr(0, 20));
      CHECK(extra_memory([&] { return reader.read(path); }, error) < allowed);
      CAPTURE(error);
      CHECK_FALSE(error.empty());  // all of them are wrong
    }
  }
}

TEST_CASE("a metrics file without lines takes no memory") {
  const TempFolder folder;
  const auto path = folder.write("metrics.jsonl", "{\"step\":1}\n" + std::string(std::size_t{8} << 20, 'x'));
  std::string error;
  const auto opened_and_begun = [&] {
    MetricsFile file(path, 1);
    file.begin();
    return file.tried();
  };
  CHECK(extra_memory(opened_and_begun, error) < std::int64_t{1} << 20);
  CHECK(error.empty());
  CHECK(std::filesystem::file_size(path) == 11);  // the line of step 1
}
