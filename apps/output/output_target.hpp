// Resolves the path of an output option, and writes to outputs that are not regular files.
#pragma once

#include <filesystem>
#include <optional>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

namespace pipetrain {

// A regular file, existing or not, can be replaced by a draft. Everything else is a stream: a pipe, terminal, device or
// socket, and every open descriptor under /proc, whatever it was opened on (/dev/stdout is such a link). A stream is
// written to from its current position and is never replaced.
struct OutputTarget {
  std::filesystem::path path;     // as given, for messages
  std::filesystem::path file;     // a regular file's, with all links followed, so that the links stay. Empty for a stream.
  std::optional<int> descriptor;  // set for a stream that this process has open already, such as 1 for /dev/stdout
  bool is_stream() const { return file.empty(); }
};

// Changes nothing. Throws Error(input) with `option`, such as "svg", for a folder, a socket's name, or a circle of links.
OutputTarget output_target(const std::string& option, const std::filesystem::path& path);

// Throws the Error(input) for an output that cannot be written; `error` (errno) gives the reason.
[[noreturn]] void fail_write(const std::string& option, const std::filesystem::path& path, int error);

// A stream open for writing. Waits for a reader, and for a slow reader, as long as needed; after the first SIGINT, SIGTERM or
// SIGHUP it waits for two seconds more, and then throws Error(aborted). Other failures are Error(input). Not thread-safe.
class OutputStream {
 public:
  OutputStream(std::string option, const OutputTarget& target);
  OutputStream(const OutputStream&) = delete;
  OutputStream& operator=(const OutputStream&) = delete;
  ~OutputStream();

  // The bytes have reached the system when this returns.
  void write(std::string_view bytes);

 private:
  int open_for_reader(const std::filesystem::path& path) const;

  std::string option_;
  std::filesystem::path path_;
  int fd_ = -1;
};

// Writes to an OutputStream through a std::ostream; the stream's exceptions pass through.
class OutputStreamBuffer : public std::streambuf {
 public:
  explicit OutputStreamBuffer(OutputStream& stream);

 protected:
  int_type overflow(int_type next) override;
  int sync() override;

 private:
  OutputStream& stream_;
  std::vector<char> buffer_;
};

}  // namespace pipetrain
