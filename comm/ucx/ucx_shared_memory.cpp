#include "comm/ucx/ucx_shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/cpu_device.hpp"

namespace pipetrain {
namespace {

// With these seals nobody, not even the owner, can shrink the memory while others read it.
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// The file contains the memory's bytes, then the secret. A descriptor below 0: this system supports none.
FileDescriptor make_file(std::size_t bytes, std::uint64_t secret) {
  FileDescriptor file(::memfd_create("pipetrain mirrors", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool made = file.get() >= 0 && ::ftruncate(file.get(), static_cast<off_t>(bytes + sizeof secret)) == 0 &&
                    ::pwrite(file.get(), &secret, sizeof secret, static_cast<off_t>(bytes)) == sizeof secret &&
                    ::fcntl(file.get(), F_ADD_SEALS, seals) == 0;
  return made ? std::move(file) : FileDescriptor();
}

bool is_it(int file, const SharedMemoryName& name) {
  struct stat status {};
  std::uint64_t secret = 0;
  return ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size >= 0 &&
         static_cast<std::uint64_t>(status.st_size) - sizeof secret == name.bytes &&
         (::fcntl(file, F_GET_SEALS) & seals) == seals &&
         ::pread(file, &secret, sizeof secret, static_cast<off_t>(name.bytes)) == sizeof secret && secret == name.secret;
}

}  // namespace

SharedBuffer allocate_shared(Device& device, std::size_t bytes, const std::string& what) {
  const std::size_t size = std::max(align_up(bytes), tensor_alignment);
  require_free(device, size, what);
  SharedMemoryName name{.bytes = size};
  const bool random = ::getrandom(&name.secret, sizeof name.secret, 0) == sizeof name.secret;
  FileDescriptor file = random ? make_file(size, name.secret) : FileDescriptor();
  void* data = file.get() < 0 ? MAP_FAILED : ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) return {device.allocate(bytes, what), std::nullopt, FileDescriptor()};
  name.address = reinterpret_cast<std::uintptr_t>(data);
  name.file = file.get();
  return {Buffer(data, size, [size](void* memory) { ::munmap(memory, size); }), name, std::move(file)};
}

std::unique_ptr<MappedMemory> MappedMemory::open(std::int64_t pid, const SharedMemoryName& name, Access access) {
  const bool writes = access == Access::write;
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(name.file);
  // The number may name something else than a file: opening a pipe, say, must not block.
  const FileDescriptor file(::open(path.c_str(), (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0 || !is_it(file.get(), name)) return nullptr;
  void* data = ::mmap(nullptr, name.bytes, writes ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) return nullptr;
  return std::unique_ptr<MappedMemory>(new MappedMemory(name, static_cast<std::byte*>(data)));
}

MappedMemory::~MappedMemory() { ::munmap(data_, name_.bytes); }

std::byte* MappedMemory::place(std::uint64_t address, std::size_t bytes) const {
  if (address < name_.address || address - name_.address > name_.bytes) return nullptr;
  const std::uint64_t offset = address - name_.address;
  return bytes <= name_.bytes - offset ? data_ + offset : nullptr;
}

}  // namespace pipetrain
