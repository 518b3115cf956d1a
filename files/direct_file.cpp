#include "files/direct_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <liburing.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <numeric>
#include <string>
#include <system_error>

#include "core/error.hpp"
#include "files/file_io.hpp"
#include "files/write_error.hpp"

namespace pipetrain {
namespace {

// `what` is a clause that says what cannot be done; `error` (errno) gives the reason and the advice.
[[noreturn]] void fail_direct_write(const std::filesystem::path& folder, const std::string& what, int error, ErrorKind kind,
                                    const char* remedy) {
  throw WriteError(kind, folder, fmt::format("{} ({}); {}", what, std::generic_category().message(error), remedy));
}

constexpr const char* another_disk = "make room, or take another disk";

int open_nameless(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
  if (descriptor >= 0) return descriptor;
  const int error = errno;
  if (error == EINVAL || error == EOPNOTSUPP || error == EISDIR)
    throw WriteError(ErrorKind::input, folder,
                     "its file system has no direct I/O on files without a name; give a folder on a local disk (ext4, xfs, "
                     "btrfs)");
  fail_direct_write(folder, "no file can be made in it", error, kind_of_write_failure(error),
                    error == ENOENT ? "make it first, or give another folder" : "give a folder that can be written");
}

// If the file system cannot reserve, a full disk is found by the write that meets it.
void reserve(int descriptor, const std::filesystem::path& folder, std::size_t bytes) {
  const auto length = static_cast<off_t>(bytes);
  if (bytes == 0) return;
  if (::fallocate(descriptor, 0, 0, length) != 0 && errno != EOPNOTSUPP) {
    const int error = errno;
    fail_direct_write(folder, fmt::format("{} MiB cannot be reserved on its disk", bytes >> 20), error,
                      kind_of_write_failure(error), another_disk);
  }
  if (::ftruncate(descriptor, length) != 0) {
    const int error = errno;
    fail_direct_write(folder, "a file cannot be made longer", error, kind_of_write_failure(error), another_disk);
  }
}

}  // namespace

// The requests of one direction, and the pieces into which a transfer is cut.
class DirectFile::Requests {
 public:
  explicit Requests(const std::filesystem::path& folder) {
    const int error = -io_uring_queue_init(depth, &ring_, 0);
    if (error != 0)
      fail_direct_write(
          folder, "this kernel refuses io_uring, which moves states to disks", error, ErrorKind::unavailable,
          "allow it (kernel.io_uring_disabled, or the container's seccomp profile), or offload nothing to a disk");
    std::iota(spare_.begin(), spare_.end(), std::size_t{0});
  }
  ~Requests() { io_uring_queue_exit(&ring_); }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  struct Transfer {
    int descriptor = -1;
    bool writes = false;
    std::size_t begin = 0;  // offset in the file
    char* memory = nullptr;
    std::size_t bytes = 0;
  };
  // Returns 0, or the first error (errno), once nothing is in flight any more.
  int run(const Transfer& transfer) {
    error_ = 0;
    std::size_t next = 0;
    while (in_flight_ > 0 || (next < transfer.bytes && error_ == 0)) {
      while (in_flight_ < depth && next < transfer.bytes && error_ == 0) {
        const std::size_t at = spare_[depth - ++in_flight_];
        pieces_[at] = {next, std::min(piece_bytes, transfer.bytes - next)};
        next += pieces_[at].bytes;
        post(transfer, at);
      }
      // Requests that the kernel has no resources for yet are submitted by the next call.
      const int submitted = io_uring_submit_and_wait(&ring_, 1);
      if (submitted < 0 && submitted != -EINTR && submitted != -EAGAIN && submitted != -EBUSY && error_ == 0)
        error_ = -submitted;
      collect(transfer);
    }
    return error_;
  }

 private:
  static constexpr unsigned depth = 32;
  static constexpr std::size_t piece_bytes = std::size_t{1} << 20;
  struct Piece {
    std::size_t begin = 0, bytes = 0;  // the part of the transfer that is still to be moved
  };

  void post(const Transfer& transfer, std::size_t at) {
    const Piece& piece = pieces_[at];
    io_uring_sqe* request = io_uring_get_sqe(&ring_);
    assert(request != nullptr);  // there are as many requests as pieces
    const auto length = static_cast<unsigned>(piece.bytes);
    if (transfer.writes) {
      io_uring_prep_write(request, transfer.descriptor, transfer.memory + piece.begin, length, transfer.begin + piece.begin);
    } else {
      io_uring_prep_read(request, transfer.descriptor, transfer.memory + piece.begin, length, transfer.begin + piece.begin);
    }
    io_uring_sqe_set_data64(request, at);
  }

  void collect(const Transfer& transfer) {
    io_uring_cqe* done = nullptr;
    while (io_uring_peek_cqe(&ring_, &done) == 0) {
      const auto at = static_cast<std::size_t>(done->user_data);
      const int result = done->res;
      io_uring_cqe_seen(&ring_, done);
      Piece& piece = pieces_[at];
      if (result > 0) {
        piece.begin += static_cast<std::size_t>(result);
        piece.bytes -= static_cast<std::size_t>(result);
      } else if (result != -EINTR && result != -EAGAIN && error_ == 0) {
        error_ = result == 0 ? EIO : -result;  // 0: past the end, because somebody truncated the file
      }
      if (error_ == 0 && piece.bytes > 0) {
        post(transfer, at);
      } else {
        spare_[depth - in_flight_--] = at;
      }
    }
  }

  io_uring ring_{};
  std::array<Piece, depth> pieces_;
  std::array<std::size_t, depth> spare_;  // indices of pieces that are not in flight come first
  std::size_t in_flight_ = 0;
  int error_ = 0;
};

DirectFile::DirectFile(const std::filesystem::path& folder, std::size_t bytes) : folder_(folder), bytes_(bytes) {
  reads_ = std::make_unique<Requests>(folder);
  writes_ = std::make_unique<Requests>(folder);
  descriptor_ = open_nameless(folder);
  try {
    reserve(descriptor_, folder, bytes);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

DirectFile::~DirectFile() { ::close(descriptor_); }

void DirectFile::read(std::size_t begin, void* target, std::size_t bytes) {
  assert(begin + bytes <= bytes_);
  const int error = reads_->run({descriptor_, false, begin, static_cast<char*>(target), bytes});
  if (error != 0)
    throw Error(
        ErrorKind::unavailable,
        fmt::format("{}: the data that the run moved to this disk cannot be read ({}); look at the disk, or take another",
                    folder_.string(), std::generic_category().message(error)));
}

void DirectFile::write(std::size_t begin, const void* source, std::size_t bytes) {
  assert(begin + bytes <= bytes_);
  // The kernel only reads from this memory.
  const int error = writes_->run({descriptor_, true, begin, static_cast<char*>(const_cast<void*>(source)), bytes});
  if (error != 0)
    fail_direct_write(folder_, "the disk rejects the data that the run moves to it", error, kind_of_write_failure(error),
                      another_disk);
}

std::size_t free_disk_bytes(const std::filesystem::path& folder) {
  struct statvfs space {};
  if (::statvfs(folder.c_str(), &space) != 0)
    fail_direct_write(folder, "there is no such folder", errno, ErrorKind::input, "make it first, or give another");
  return static_cast<std::size_t>(space.f_bavail) * space.f_frsize;
}

}  // namespace pipetrain
