// Handles of the C API: numbers in the form of pointers that are never reused. So a handle that was freed, or is of
// another kind, is refused instead of followed.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "bindings/guest/misuse.hpp"

namespace pipetrain::c_api {

std::uintptr_t next_handle();

// The handles of one kind. Thread-safe; an object that a call uses lives until the call returns.
template <class Handle, class Object>
class HandleTable {
 public:
  explicit HandleTable(const char* name) : name_(name) {}

  Handle* add(std::shared_ptr<Object> object) {
    const std::uintptr_t number = next_handle();
    const std::unique_lock lock(mutex_);
    objects_.emplace(number, std::move(object));
    return reinterpret_cast<Handle*>(number);
  }

  // Throws Misuse where there is none.
  std::shared_ptr<Object> get(const Handle* handle) const {
    const std::shared_lock lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (found == objects_.end())
      throw Misuse(std::string(name_) + (handle == nullptr ? ": a null handle" : ": no such handle, or it was freed"));
    return found->second;
  }

  void remove(const Handle* handle) {
    std::shared_ptr<Object> last;  // declared first, so that it ends last: outside the lock
    const std::unique_lock lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (found == objects_.end()) throw Misuse(std::string(name_) + ": no such handle, or it was freed already");
    last = std::move(found->second);
    objects_.erase(found);
  }

 private:
  const char* name_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::uintptr_t, std::shared_ptr<Object>> objects_;
};

}  // namespace pipetrain::c_api
