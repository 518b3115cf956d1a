// The only error type of the library. Only apps/ turns it into an exit status. Include this header where errors are thrown
// or caught; declarations need `class Error;`, core/error_kind.hpp or core/setting.hpp alone, so that a change here
// compiles few sources again.
#pragma once

#include <stdexcept>
#include <string>

#include "core/error_kind.hpp"
#include "core/setting.hpp"

namespace pipetrain {

// A setting, or none, that copies share, because copies of an exception must not throw. Thread-safe to copy.
class SharedSetting {
 public:
  SharedSetting() noexcept = default;
  explicit SharedSetting(Setting setting);
  SharedSetting(const SharedSetting& other) noexcept;
  SharedSetting& operator=(const SharedSetting& other) noexcept;
  ~SharedSetting();

  const Setting* get() const noexcept;  // null for none

 private:
  struct Counted;
  Counted* counted_ = nullptr;
};

// what() is one line that a user can act on: what, where, what to do. It may quote files and names with any bytes:
// control characters become escapes such as \n and \x1b. Thread-safe to copy.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& what);
  // what() is "tp 3: " and then `why`, or "seq-len: " where the setting had no value. The program that reads settings
  // adds how users spell them, as an option or as a key of a file.
  Error(ErrorKind kind, Setting setting, const std::string& why);
  // what() is "stage 1, tp rank 0, replica 0: " and then `why`: the error names the part of the run in which it happened.
  static Error at(const std::string& place, ErrorKind kind, const std::string& why);
  // Makes an error that was sent as data: `what` is the whole line.
  Error(ErrorKind kind, const std::string& what, const Setting* setting, bool names_place);

  ErrorKind kind() const noexcept { return kind_; }
  // True when what() already names the part of the run in which it happened, so that nobody adds it.
  bool names_place() const noexcept { return names_place_; }
  // Returns null if the error is not about one setting. Valid as long as the error or a copy of it.
  const Setting* setting() const noexcept { return setting_.get(); }

 private:
  ErrorKind kind_;
  SharedSetting setting_;
  bool names_place_ = false;
};

}  // namespace pipetrain
