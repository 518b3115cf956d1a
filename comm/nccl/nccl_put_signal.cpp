#include "comm/nccl/nccl_put_signal.hpp"

#include <nccl_device.h>

#include "comm/nccl/nccl_library.hpp"

namespace pipetrain {
namespace {

constexpr int first_version = NCCL_VERSION(2, 29, 0);

struct Functions {
  decltype(&ncclMemAlloc) allocate = nullptr;
  decltype(&ncclMemFree) release = nullptr;
  decltype(&ncclCommQueryProperties) properties = nullptr;
  decltype(&ncclCommWindowRegister) make_window = nullptr;
  decltype(&ncclPutSignal) put = nullptr;
  decltype(&ncclSignal) signal = nullptr;
  decltype(&ncclWaitSignal) wait = nullptr;
};

class LoadedPutSignal final : public NcclPutSignal {
 public:
  explicit LoadedPutSignal(const Functions& functions) : functions_(functions) {}

  ncclResult_t allocate(void** data, std::size_t bytes) const override { return functions_.allocate(data, bytes); }
  ncclResult_t release(void* data) const override { return functions_.release(data); }
  bool possible(ncclComm_t comm) const override {
    ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
    return functions_.properties(comm, &properties) == ncclSuccess && properties.hostRmaSupport;
  }
  ncclResult_t make_window(ncclComm_t comm, void* data, std::size_t bytes, void** window) const override {
    static_assert(sizeof(ncclWindow_t) == sizeof(void*));
    return functions_.make_window(comm, data, bytes, reinterpret_cast<ncclWindow_t*>(window), NCCL_WIN_COLL_SYMMETRIC);
  }
  ncclResult_t put(const void* data, std::size_t bytes, int peer, void* window, ncclComm_t comm,
                   cudaStream_t stream) const override {
    if (bytes == 0) return functions_.signal(peer, signal_index, context, flags, comm, stream);
    return functions_.put(data, bytes, ncclUint8, peer, static_cast<ncclWindow_t>(window), 0, signal_index, context, flags,
                          comm, stream);
  }
  ncclResult_t wait(int peer, ncclComm_t comm, cudaStream_t stream) const override {
    ncclWaitSignalDesc_t next{};
    next.opCnt = 1;
    next.peer = peer;
    next.sigIdx = signal_index;
    next.ctx = context;
    return functions_.wait(1, &next, comm, stream);
  }

 private:
  static constexpr int signal_index = 0, context = 0;  // the first releases support no others
  static constexpr unsigned flags = 0;

  Functions functions_;
};

template <class Function>
bool find_put_function(const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(nccl().find(name));
  if (function == nullptr) missing = std::string("this host's NCCL has no ") + name;
  return function != nullptr;
}

NcclPuts load_puts() {
  if (nccl().version < first_version) return {nullptr, "this host's NCCL is older than 2.29, which has puts"};
  Functions functions;
  std::string missing;
  const bool all = find_put_function("ncclMemAlloc", functions.allocate, missing) &&
                   find_put_function("ncclMemFree", functions.release, missing) &&
                   find_put_function("ncclCommQueryProperties", functions.properties, missing) &&
                   find_put_function("ncclCommWindowRegister", functions.make_window, missing) &&
                   find_put_function("ncclPutSignal", functions.put, missing) &&
                   find_put_function("ncclSignal", functions.signal, missing) &&
                   find_put_function("ncclWaitSignal", functions.wait, missing);
  if (!all) return {nullptr, missing};
  static const LoadedPutSignal loaded(functions);
  return {&loaded, ""};
}

}  // namespace

const NcclPuts& nccl_puts() {
  static const NcclPuts puts = load_puts();
  return puts;
}

}  // namespace pipetrain
