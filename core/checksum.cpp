#include "core/checksum.hpp"

#include <bit>

#define XXH_INLINE_ALL  // no library to load at run time
#include <xxhash.h>

namespace pipetrain {

static_assert(std::endian::native == std::endian::little, "numbers are added as they are in memory");

struct Checksum::State {
  XXH3_state_t xxh3;
};

std::uint64_t checksum(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }

Checksum::Checksum() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->xxh3); }
Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;

void Checksum::add(const void* data, std::size_t bytes) { XXH3_64bits_update(&state_->xxh3, data, bytes); }
std::uint64_t Checksum::value() const { return XXH3_64bits_digest(&state_->xxh3); }

}  // namespace pipetrain
