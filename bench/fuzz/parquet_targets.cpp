#include <algorithm>
#include <fstream>
#include <iterator>

#include "bench/fuzz/target.hpp"
#include "data/rows/parquet.hpp"

namespace pipetrain::fuzz {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

// Returns the folder of valid files: that of the bundle that the program is in, else that of the sources.
fs::path seeds_folder() {
  const fs::path bundled = fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "share/pipetrain/fuzz/parquet";
  return fs::is_directory(bundled) ? bundled : fs::path(PIPETRAIN_PARQUET_SEEDS);
}

// Returns these files in the order of their names.
std::vector<std::string> seeds() {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(seeds_folder())) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> files;
  for (const fs::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return files;
}

// Repairs both ends of most files, so that mutations reach the parts between them. The footer is as long as the bytes
// in front of the last eight say, or as long as a number between them says.
std::string with_ends(Random& random, std::string file) {
  if (file.size() < 12 || random.one_in(16)) return file;
  const std::string name = "PAR1";
  file.replace(0, 4, name);
  file.replace(file.size() - 4, 4, name);
  const std::size_t most = file.size() - 12;
  std::size_t footer = 0;
  for (std::size_t i = 0; i < 4; ++i) footer |= std::size_t{static_cast<unsigned char>(file[file.size() - 8 + i])} << (8 * i);
  if (footer > 0 && footer <= most) return file;
  footer = 1 + random.below(std::max<std::size_t>(most, 1));
  for (std::size_t i = 0; i < 4; ++i) file[file.size() - 8 + i] = static_cast<char>(footer >> (8 * i));
  return file;
}

}  // namespace

std::vector<Target> parquet_targets(const fs::path& folder) {
  const fs::path file = folder / "rows.parquet";
  // Byte sequences of Thrift's compact protocol: the longest numbers, sizes of lists, ends of structs, types of fields.
  const std::vector<std::string> words = {"PAR1",
                                          "\xff\xff\xff\xff\x0f"s,
                                          "\xfe\xff\xff\xff\x0f"s,
                                          "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s,
                                          "\x80\x80\x80\x80\x04"s,
                                          "\xf9\xff\xff\xff\x07"s,
                                          "\x00"s,
                                          "\x15\x00"s,
                                          "\x19\x1c"s,
                                          "\x26\x80\x80\x80\x80\x08"s,
                                          "text",
                                          "input_ids",
                                          "messages"};
  Target rows{"parquet", seeds(), words, nullptr, with_ends};
  rows.run = [file](std::string_view input) {
    put_file(file, input);
    open_parquet(file);
  };
  return {rows};
}

}  // namespace pipetrain::fuzz
