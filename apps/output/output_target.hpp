// Where the path of an output option leads, and how what is no regular file is written to.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

namespace pipetrain {

// A regular file, there or to be made, can be replaced by a draft. Everything else is a stream: a pipe, terminal, device or
// socket, and every open descriptor under /proc, whatever it was opened on (/dev/stdout is such a link). A stream is written to
// as it is, from where it stands; nothing is ever put in its place.
struct OutputTarget {
  std::filesystem::path path;     // as it was given, for messages
  std::filesystem::path file;     // of a regular file, with all links followed: the links stay. Empty for a stream.
  std::optional<int> descriptor;  // of a stream that this process has open already, such as 1 for /dev/stdout
  bool is_stream() const { return file.empty(); }
};

// Touches nothing. Throws Error(input) with `option`, such as "svg", for a folder, a socket's name, or a circle of links.
OutputTarget output_target(const std::string& option, const std::filesystem::path& path);

// Throws the Error(input) for an output that cannot be written, for the reason `error` (errno).
[[noreturn]] void fail_write(const std::string& option, const std::filesystem::path& path, int error);

// A stream open for writing. Waits for a reader, and for a reader that has fallen behind, as long as it takes; after the first
// SIGINT, SIGTERM or SIGHUP for two seconds, and then throws Error(aborted). Other failures are Error(input). Not thread-safe.
class OutputStream {
 public:
  OutputStream(std::string option, const OutputTarget& target);
  OutputStream(const OutputStream&) = delete;
  OutputStream& operator=(const OutputStream&) = delete;
  ~OutputStream();

  // With the system when it returns.
  void write(std::string_view bytes);

 private:
  int open_for_reader(const std::filesystem::path& path) const;

  std::string option_;
  std::filesystem::path path_;
  int fd_ = -1;
};

// Writes to an OutputStream through a std::ostream, which throws what the stream throws.
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
