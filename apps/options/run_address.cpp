#include "apps/options/run_address.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "core/error.hpp"
#include "files/file_io.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_address_text = 1 << 14;

fs::path address_file(const fs::path& folder) { return folder / "run.address"; }

[[noreturn]] void fail_address(const fs::path& file) {
  throw Error(ErrorKind::unavailable,
              fmt::format("the address of the run cannot be written to {}: {}", file.string(), std::strerror(errno)));
}

}  // namespace

void write_run_address(const fs::path& folder, const RunAddress& address) {
  const fs::path draft = folder / ".run.address.partial";
  const std::string text = address.door + '\n' + address.token + '\n';
  const int descriptor = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor < 0) fail_address(draft);
  const bool written = ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(descriptor);
  if (!written || ::rename(draft.c_str(), address_file(folder).c_str()) != 0) fail_address(draft);
}

std::optional<RunAddress> read_run_address(const fs::path& folder) {
  std::error_code none;
  if (!fs::is_regular_file(address_file(folder), none)) return {};
  RunAddress address;
  std::istringstream in(read_text(address_file(folder), longest_address_text));
  if (!std::getline(in, address.door) || address.door.empty() || !std::getline(in, address.token)) return {};
  return address;
}

void remove_run_address(const fs::path& folder) {
  std::error_code gone;
  fs::remove(address_file(folder), gone);
}

}  // namespace pipetrain
