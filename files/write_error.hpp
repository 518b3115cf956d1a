// The error of a file that cannot be written.
#pragma once

#include <filesystem>
#include <string>

#include "core/error.hpp"

namespace pipetrain {

// Thrown if a file cannot be written. The reason is a clause: "cannot be written: No space left on device; make room".
class WriteError : public Error {
 public:
  WriteError(ErrorKind kind, const std::filesystem::path& path, const std::string& reason);
  const std::filesystem::path& path() const noexcept { return path_; }
  const std::string& reason() const noexcept { return reason_; }

 private:
  std::filesystem::path path_;
  std::string reason_;
};

}  // namespace pipetrain
