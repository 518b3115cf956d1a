#include "files/unpacked_file.hpp"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "files/unnamed_file.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t piece_bytes = std::size_t{1} << 18;
constexpr int largest_zstd_window = 25;  // 2^25 bytes, more than levels up to 19 use

[[noreturn]] void fail_unpacking(const fs::path& path, const std::string& why) {
  throw Error(ErrorKind::input, fmt::format("{}: {}", path.string(), why));
}
[[noreturn]] void fail_damaged(const fs::path& path, const std::string& why) {
  fail_unpacking(path, fmt::format("cannot be unpacked ({}); the file is damaged or cut short", why));
}

void unpack_gzip(const MappedFile& file, UnnamedFile& out) {
  z_stream stream{};
  constexpr int gzip_only = 16 + MAX_WBITS;
  if (inflateInit2(&stream, gzip_only) != Z_OK) throw std::bad_alloc();
  const std::unique_ptr<z_stream, int (*)(z_stream*)> guard(&stream, inflateEnd);
  std::vector<char> piece(piece_bytes);
  std::string_view rest = file.bytes();
  bool is_whole = false;
  while (!rest.empty() || !is_whole) {
    const std::size_t given = std::min<std::size_t>(rest.size(), std::numeric_limits<uInt>::max());
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest.data()));
    stream.avail_in = static_cast<uInt>(given);
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    const int status = inflate(&stream, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END)
      fail_damaged(file.path(), stream.msg != nullptr ? stream.msg : "it ends early");
    out.write(piece.data(), piece.size() - stream.avail_out);
    rest.remove_prefix(given - stream.avail_in);
    is_whole = status == Z_STREAM_END;
    if (is_whole && inflateReset(&stream) != Z_OK) throw std::bad_alloc();  // another member may follow
  }
}

void unpack_zstd(const MappedFile& file, UnnamedFile& out) {
  const std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (!context) throw std::bad_alloc();
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, largest_zstd_window);
  std::vector<char> piece(piece_bytes);
  ZSTD_inBuffer in{file.bytes().data(), file.bytes().size(), 0};
  std::size_t missing = 1;  // of a frame, 0 at its end
  while (in.pos < in.size || missing != 0) {
    ZSTD_outBuffer to{piece.data(), piece.size(), 0};
    const std::size_t before = in.pos;
    missing = ZSTD_decompressStream(context.get(), &to, &in);
    if (ZSTD_isError(missing) != 0) fail_damaged(file.path(), ZSTD_getErrorName(missing));
    if (missing != 0 && in.pos == before && to.pos == 0) fail_damaged(file.path(), "it ends early");
    out.write(piece.data(), to.pos);
  }
}

}  // namespace

bool is_packed(const fs::path& path) { return path.extension() == ".gz" || path.extension() == ".zst"; }

fs::path unpacked_name(const fs::path& path) { return is_packed(path) ? fs::path(path).replace_extension() : path; }

MappedFile open_unpacked(const fs::path& path) {
  if (!is_packed(path)) return MappedFile(path);
  const MappedFile packed(path);
  UnnamedFile out(path);
  path.extension() == ".gz" ? unpack_gzip(packed, out) : unpack_zstd(packed, out);
  return MappedFile(path, out.descriptor());
}

}  // namespace pipetrain
