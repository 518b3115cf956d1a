#include "comm/cuda/cuda_ipc_memory.hpp"

#include <cstring>
#include <span>

#include "core/cuda/cuda_driver.hpp"
#include "core/cuda/cuda_stream.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

std::string status_name(cudaError_t status) {
  return std::string(cudaGetErrorString(status)) + " (" + cudaGetErrorName(status) + ")";
}

}  // namespace

// A handle of an address inside an allocation is the allocation's, so it opens at its beginning.
ExportedMemory export_memory(const void* data, int device) {
  const AllocationRange allocation = allocation_of(data, device);
  ExportedMemory memory;
  memory.offset = static_cast<std::uint64_t>(static_cast<const char*>(data) - allocation.base);
  const cudaError_t status = cudaIpcGetMemHandle(&memory.allocation, allocation.base);
  if (status != cudaSuccess) {
    cudaGetLastError();
    throw Error(ErrorKind::unavailable, "cuda:" + std::to_string(device) +
                                            ": this driver does not share memory between processes: " + status_name(status) +
                                            "; choose the transport nccl");
  }
  return memory;
}

void write(WireWriter& out, const ExportedMemory& memory) {
  out.bytes(std::as_bytes(std::span(memory.allocation.reserved)));
  out.number(memory.offset);
}

ExportedMemory read_exported_memory(WireReader& in) {
  ExportedMemory memory;
  const auto handle = in.bytes();
  if (handle.size() != sizeof memory.allocation.reserved) WireReader::refuse("a memory handle of another size");
  std::memcpy(memory.allocation.reserved, handle.data(), handle.size());
  memory.offset = in.number<std::uint64_t>();
  return memory;
}

void* ImportedMemory::open(const ExportedMemory& memory, int device, const std::string& owner) {
  const std::lock_guard lock(mutex_);
  void*& base = open_[{device, {memory.allocation.reserved, sizeof memory.allocation.reserved}}];
  if (base == nullptr) {
    cuda_check(cudaSetDevice(device), "choosing the device", device);
    const cudaError_t status = cudaIpcOpenMemHandle(&base, memory.allocation, cudaIpcMemLazyEnablePeerAccess);
    if (status != cudaSuccess) {
      cudaGetLastError();
      base = nullptr;
      throw Error(
          ErrorKind::unavailable,
          "cuda:" + std::to_string(device) + " cannot reach the GPU memory of " + owner + ": " + status_name(status) +
              "; GPUs need peer access (nvidia-smi topo -p2p r), containers one IPC namespace; or choose the transport nccl");
    }
  }
  return static_cast<char*>(base) + memory.offset;
}

void ImportedMemory::close() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& [where, base] : open_) {
    if (base == nullptr) continue;
    cudaSetDevice(where.first);
    cudaIpcCloseMemHandle(base);
  }
  open_.clear();
}

}  // namespace pipetrain
