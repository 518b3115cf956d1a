// Structs of the caller, whose header may be older than this library: they are then shorter, and missing members are 0.
#pragma once

#include <pipetrain/pipetrain.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

#include "core/error.hpp"

namespace pipetrain::c_api {

// The size of a struct in the first version of the header.
template <class Struct>
inline constexpr std::size_t first_size = sizeof(Struct);
template <>
inline constexpr std::size_t first_size<pipetrain_costs> = offsetof(pipetrain_costs, customs);
template <>
inline constexpr std::size_t first_size<pipetrain_compute> = offsetof(pipetrain_compute, any_thread);
template <>
inline constexpr std::size_t first_size<pipetrain_step> = offsetof(pipetrain_step, evaluation);

// Throws Error(input) unless `size` can be that of the struct in this header or in an older one.
template <class Struct>
void check_size(std::size_t size, const char* name) {
  constexpr std::size_t now = sizeof(Struct);
  if (size >= first_size<Struct> && size <= now && size % alignof(Struct) == 0) return;
  throw Error(ErrorKind::input, std::string(name) + ".struct_size: " + std::to_string(size) +
                                    (size > now && size < 4 * now ? " is of a newer pipetrain than this library, which has "
                                                                  : " is not the size of the struct, ") +
                                    std::to_string(now) + "; set it to sizeof");
}

// Copies the caller's struct.
template <class Struct>
Struct read_struct(const Struct* given, const char* name) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  if (given == nullptr) throw Error(ErrorKind::input, std::string(name) + ": a null pointer; give one");
  check_size<Struct>(given->struct_size, name);
  Struct copy{};
  std::memcpy(&copy, given, given->struct_size);
  return copy;
}

// The same; all defaults where it is null.
template <class Struct>
Struct read_or_default(const Struct* given, const char* name) {
  if (given != nullptr) return read_struct(given, name);
  Struct defaults{};
  defaults.struct_size = sizeof(Struct);
  return defaults;
}

// For a struct inside another one that was read: returns null where all of it is 0.
template <class Struct>
const Struct* null_if_zero(const Struct& inner) {
  const Struct zero{};
  return std::memcmp(&inner, &zero, sizeof(Struct)) == 0 ? nullptr : &inner;
}

// Fills the part of the struct that the caller knows, which its struct_size gives and which stays as it is.
template <class Struct>
void write_struct(Struct* out, Struct value, const char* name) {
  if (out == nullptr) throw Error(ErrorKind::input, std::string(name) + ": a null pointer; give one");
  check_size<Struct>(out->struct_size, name);
  value.struct_size = out->struct_size;
  std::memcpy(out, &value, out->struct_size);
}

}  // namespace pipetrain::c_api
