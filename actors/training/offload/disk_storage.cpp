#include "actors/training/offload/any_bytes.hpp"
#include "actors/training/offload/offload_storage.hpp"
#include "core/cpu_stream.hpp"
#include "files/direct_file.hpp"

namespace pipetrain {
namespace {

// The thread of each stream waits for its own transfer, while other threads compute.
class DiskStorage final : public OffloadStorage {
 public:
  DiskStorage(const std::filesystem::path& folder, std::size_t bytes) : file_(folder, bytes), any_(file_) {
    static_assert(granularity % DirectFile::alignment == 0);
  }

  void fetch(Stream& stream, std::size_t begin, void* memory, std::size_t bytes) override {
    cpu_stream(stream).enqueue([=, this] { file_.read(begin, memory, bytes); });
  }
  void store(Stream& stream, std::size_t begin, const void* memory, std::size_t bytes) override {
    cpu_stream(stream).enqueue([=, this] { file_.write(begin, memory, bytes); });
  }
  void read(std::size_t begin, void* target, std::size_t bytes) override { any_.read(begin, target, bytes); }
  void write(std::size_t begin, const void* source, std::size_t bytes) override { any_.write(begin, source, bytes); }

 private:
  DirectFile file_;
  AnyBytes any_;
};

}  // namespace

std::unique_ptr<OffloadStorage> make_disk_storage(Device& device, const std::filesystem::path& folder,
                                                  const StorageBytes& bytes) {
  if (device.id().kind == DeviceKind::cuda) return make_staged_disk_storage(device, folder, bytes);
  return std::make_unique<DiskStorage>(folder, bytes.all);
}

}  // namespace pipetrain
