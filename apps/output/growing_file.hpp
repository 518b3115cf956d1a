// An output that grows where it is while a command goes on, so that what was written is there however the command ends.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "apps/output/output_target.hpp"

namespace pipetrain {

// Not thread-safe.
class GrowingFile {
 public:
  // Where the part of an earlier file that is kept ends; -1 with errno where that cannot be read.
  using KeptEnd = std::function<off_t(int descriptor)>;

  // `option`, such as "metrics", is named in errors. The file starts anew, or goes on behind what `kept` says; a stream
  // (apps/output/output_target.hpp) is added to as it stands. Throws Error(input) when it cannot be opened, read or cut, or a
  // disk has no room for a line.
  GrowingFile(std::string option, std::filesystem::path path, const KeptEnd& kept = nullptr);
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  // Whether it has been found that the file can be written, as is done at once with one on a disk; streams show with write().
  bool tried() const { return tried_; }
  // The bytes are with the system when this returns. Throws Error(input) on a full disk; the file then ends before them. Throws
  // Error(aborted) when a stream is not read and the command has been asked to stop.
  void write(std::string_view bytes);

 private:
  std::string option_;
  std::filesystem::path path_;
  int fd_ = -1;
  std::optional<OutputStream> stream_;  // instead
  bool tried_ = false;
};

}  // namespace pipetrain
