// An output file that grows in place while a command runs, so that its contents survive however the command ends.
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
  // Returns the end of the part of an earlier file that is kept; -1 with errno if it cannot be read.
  using KeptEnd = std::function<off_t(int descriptor)>;

  // `option`, such as "metrics", is named in errors. The file starts anew, or continues after the end that `kept`
  // returns, from begin() on: a command that is refused before that leaves an earlier file unchanged, and creates none.
  // A stream (apps/output/output_target.hpp) is appended to. Throws Error(input) if it cannot be opened or read, if
  // another run has it open, or if a disk has no room for a line.
  GrowingFile(std::string option, std::filesystem::path path, const KeptEnd& kept = nullptr);
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  // Returns true if a write is known to succeed. A file on a disk is tried at once, a stream by write().
  bool tried() const { return tried_; }
  // Cuts off the part of an earlier file that is not kept. Throws Error(input) if that fails. write() calls it if needed.
  void begin();
  // The bytes have reached the system when this returns. Throws Error(input) on a full disk; the file then ends before
  // them. Throws Error(aborted) if a stream is not read and the command has been asked to stop.
  void write(std::string_view bytes);

 private:
  void lock();
  void close();

  std::string option_;
  std::filesystem::path path_;
  int fd_ = -1;
  off_t end_ = 0;                       // the end of the kept part of an earlier file
  bool begun_ = false;                  // the rest of it has been cut off
  std::filesystem::path created_;       // the path, if the file did not exist
  std::optional<OutputStream> stream_;  // used instead
  bool tried_ = false;
};

}  // namespace pipetrain
