#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "actors/training/offload_place.hpp"
#include "core/cpu_stream.hpp"
#include "files/direct_file.hpp"

namespace pipetrain {
namespace {

// Each stream's thread waits for its own transfer, beside the threads that compute.
class DiskPlace final : public OffloadPlace {
 public:
  DiskPlace(const std::filesystem::path& folder, std::size_t bytes)
      : file_(folder, bytes), bounce_(static_cast<char*>(std::aligned_alloc(granularity, bounce_bytes)), &std::free) {
    static_assert(granularity % DirectFile::alignment == 0);
    if (!bounce_) throw std::bad_alloc();
  }

  void fetch(Stream& stream, std::size_t begin, void* memory, std::size_t bytes) override {
    cpu_stream(stream).enqueue([=, this] { file_.read(begin, memory, bytes); });
  }
  void store(Stream& stream, std::size_t begin, const void* memory, std::size_t bytes) override {
    cpu_stream(stream).enqueue([=, this] { file_.write(begin, memory, bytes); });
  }
  void read(std::size_t begin, void* target, std::size_t bytes) override {
    in_pieces(begin, bytes, [&](const Piece& piece) {
      file_.read(piece.aligned, bounce_.get(), piece.length);
      std::memcpy(static_cast<char*>(target) + piece.done, bounce_.get() + piece.skip, piece.bytes);
    });
  }
  void write(std::size_t begin, const void* source, std::size_t bytes) override {
    in_pieces(begin, bytes, [&](const Piece& piece) {
      if (piece.bytes < piece.length) file_.read(piece.aligned, bounce_.get(), piece.length);
      std::memcpy(bounce_.get() + piece.skip, static_cast<const char*>(source) + piece.done, piece.bytes);
      file_.write(piece.aligned, bounce_.get(), piece.length);
    });
  }

 private:
  static constexpr std::size_t bounce_bytes = std::size_t{4} << 20;
  struct Piece {
    std::size_t aligned, length;    // in the file
    std::size_t skip, bytes, done;  // of the length; of what was asked for
  };
  template <class Move>
  static void in_pieces(std::size_t begin, std::size_t bytes, const Move& move) {
    for (std::size_t done = 0; done < bytes;) {
      const std::size_t aligned = (begin + done) / granularity * granularity, skip = begin + done - aligned;
      const std::size_t own = std::min(bytes - done, bounce_bytes - skip);
      move(Piece{aligned, (skip + own + granularity - 1) / granularity * granularity, skip, own, done});
      done += own;
    }
  }

  DirectFile file_;
  std::unique_ptr<char, decltype(&std::free)> bounce_;
};

}  // namespace

std::unique_ptr<OffloadPlace> make_disk_place(const std::filesystem::path& folder, std::size_t bytes) {
  return std::make_unique<DiskPlace>(folder, bytes);
}

}  // namespace pipetrain
