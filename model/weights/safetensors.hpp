// The safetensors file format (github.com/huggingface/safetensors): u64 header length, JSON header, then the tensors' bytes,
// little-endian and row-major, without holes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "files/file_io.hpp"
#include "model/weights/safetensors_checksums.hpp"
#include "model/weights/saved_type.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {

class Json;

// Reading is thread-safe. Every failure is an Error(input) naming the file and the tensor.
class SafetensorsReader {
 public:
  struct Entry {
    std::string dtype;  // as in the file: "BF16"
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0, end = 0;  // bytes in the file
  };

  // Checks every tensor of the header against the file before it returns. Accepts at most 100,000,000 bytes of
  // header, 1,000,000 tensors and 64 dimensions; allocates memory for entries() and a few MB.
  explicit SafetensorsReader(const std::filesystem::path& path);

  const std::filesystem::path& path() const noexcept { return file_.path(); }
  const std::map<std::string, Entry>& entries() const noexcept { return entries_; }
  // Throws unless the tensor exists with this shape and a dtype that read() converts: F32, F16, BF16.
  void check(const std::string& name, const Shape& shape) const;
  // Throws unless the tensors fill the data without hole or overlap. Call it after check(): most holes are
  // tensors that lack their name, and check() reports those.
  void check_coverage() const;
  // out = elements [first, first + count) of a tensor that check() accepted, as f32.
  void read(const std::string& name, std::int64_t first, std::int64_t count, float* out) const;
  // out = bytes [begin, begin + bytes) of a tensor of any type.
  void read_raw(const std::string& name, std::uint64_t begin, std::size_t bytes, void* out) const;
  // Calls take(data, bytes) with the bytes of a tensor of any type, in order, a piece of at most 1 MiB at a time.
  void read_bytes(const std::string& name, const std::function<void(const void*, std::size_t)>& take) const;

 private:
  [[noreturn]] void refuse(const std::string& what, const char* remedy = "copy the file again, or save the model again") const;
  void read_header();
  Entry read_entry(const std::string& name, const Json& value) const;

  InputFile file_;
  std::uint64_t data_begin_ = 0;
  std::map<std::string, Entry> entries_;
};

// A tensor as a file declares it.
struct FileTensor {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
};
FileTensor file_tensor(const NamedShape& tensor, SavedType type);

// Writes tensors front to back.
class SafetensorsWriter {
 public:
  // type: of the tensors that write() is given.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<FileTensor> tensors, SavedType type);
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<NamedShape>& tensors,
                    SavedType type = SavedType::fp32);
  // Writes the next tensor, whole, rounded. Throws Error(numeric) for a value that the type cannot hold.
  void write(const float* values);
  // Writes the next tensor as the other file has it, byte by byte. Returns the checksum of its bytes.
  std::uint64_t copy(const SafetensorsReader& from, const std::string& name);
  // The file is on disk when this returns. Returns the checksums of the bytes that were to be written. Every
  // tensor must have been written.
  SafetensorsChecksums finish();

 private:
  OutputFile file_;
  std::filesystem::path path_;
  std::vector<FileTensor> tensors_;
  SavedType type_;
  std::size_t next_ = 0;
  SafetensorsChecksums checksums_;
};

// Writes a whole file of tensors, on disk when this returns; fill(i, out) fills tensors[i].
SafetensorsChecksums write_tensors(const std::filesystem::path& path, const std::vector<NamedShape>& tensors,
                                   const std::function<void(std::size_t, float*)>& fill, SavedType type = SavedType::fp32);

}  // namespace pipetrain
