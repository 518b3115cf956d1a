#include "actors/training/offload/any_bytes.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace pipetrain {
namespace {

constexpr std::size_t granularity = DirectFile::alignment, bounce_bytes = std::size_t{4} << 20;

struct Piece {
  std::size_t aligned, length;    // in the file
  std::size_t skip, bytes, done;  // of the length; of what was asked for
};

template <class Move>
void in_pieces(std::size_t begin, std::size_t bytes, const Move& move) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t aligned = (begin + done) / granularity * granularity, skip = begin + done - aligned;
    const std::size_t own = std::min(bytes - done, bounce_bytes - skip);
    move(Piece{aligned, (skip + own + granularity - 1) / granularity * granularity, skip, own, done});
    done += own;
  }
}

}  // namespace

AnyBytes::AnyBytes(DirectFile& file)
    : file_(file), bounce_(static_cast<char*>(std::aligned_alloc(granularity, bounce_bytes)), &std::free) {
  if (!bounce_) throw std::bad_alloc();
}

void AnyBytes::read(std::size_t begin, void* target, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  in_pieces(begin, bytes, [&](const Piece& piece) {
    file_.read(piece.aligned, bounce_.get(), piece.length);
    std::memcpy(static_cast<char*>(target) + piece.done, bounce_.get() + piece.skip, piece.bytes);
  });
}

void AnyBytes::write(std::size_t begin, const void* source, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  in_pieces(begin, bytes, [&](const Piece& piece) {
    if (piece.bytes < piece.length) file_.read(piece.aligned, bounce_.get(), piece.length);
    std::memcpy(bounce_.get() + piece.skip, static_cast<const char*>(source) + piece.done, piece.bytes);
    file_.write(piece.aligned, bounce_.get(), piece.length);
  });
}

}  // namespace pipetrain
