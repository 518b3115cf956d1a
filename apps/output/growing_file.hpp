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

  // `option`, such as "metrics", is named in errors. The file starts anew, or goes on behind what `kept` says, from begin() on:
  // a command that is refused before leaves an earlier file as it was, and none where none was. A stream
  // (apps/output/output_target.hpp) is added to as it stands. Throws Error(input) when it cannot be opened or read, another run
  // has it open, or a disk has no room for a line.
  GrowingFile(std::string option, std::filesystem::path path, const KeptEnd& kept = nullptr);
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  // Whether it has been found that the file can be written, as is done at once with one on a disk; streams show with write().
  bool tried() const { return tried_; }
  // What is not kept of an earlier file goes. Throws Error(input) where it cannot be cut. write() does it where nobody did.
  void begin();
  // The bytes are with the system when this returns. Throws Error(input) on a full disk; the file then ends before them. Throws
  // Error(aborted) when a stream is not read and the command has been asked to stop.
  void write(std::string_view bytes);

 private:
  void lock();
  void close();

  std::string option_;
  std::filesystem::path path_;
  int fd_ = -1;
  off_t end_ = 0;                       // of what is kept of an earlier file
  bool begun_ = false;                  // the rest of it has gone
  std::filesystem::path created_;       // where there was none
  std::optional<OutputStream> stream_;  // instead
  bool tried_ = false;
};

}  // namespace pipetrain
