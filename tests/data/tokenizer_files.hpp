// The files that tests/data/tokenizers/hugging_face.py writes: lines, and the ids that Hugging Face's library gives for them.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace pipetrain::test {

inline const std::vector<std::string>& tokenizer_shapes() {
  static const std::vector<std::string> names = {"gpt2", "llama3", "llama2", "unigram", "lowercase", "t5", "bert"};
  return names;
}

class RecordFile {
 public:
  explicit RecordFile(const std::filesystem::path& path) {
    std::ifstream stream(path, std::ios::binary);
    if (!stream) throw std::runtime_error(path.string() + " is missing");
    bytes_.assign(std::istreambuf_iterator<char>(stream), {});
  }
  bool at_end() const { return at_ >= bytes_.size(); }
  std::string text() { return std::string(take(number())); }
  std::vector<std::int32_t> ids() {
    std::vector<std::int32_t> ids(number());
    for (std::int32_t& id : ids) {
      std::uint16_t value = 0;
      std::memcpy(&value, take(sizeof value).data(), sizeof value);
      id = value;
    }
    return ids;
  }

 private:
  std::uint32_t number() {
    std::uint32_t value = 0;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view take(std::size_t size) {
    const std::string_view part = std::string_view(bytes_).substr(at_, size);
    if (part.size() != size) throw std::runtime_error("a file of records is cut short");
    at_ += size;
    return part;
  }

  std::string bytes_;
  std::size_t at_ = 0;
};

}  // namespace pipetrain::test
