#include "comm/nccl/nccl_library.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include "comm/nccl/nccl_put_signal.hpp"
#include "comm/nccl/nccl_transport.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

// The first version whose communicators never block a call and accept a limit of multiprocessors.
constexpr int least_version = NCCL_VERSION(2, 18, 1);

template <class Function>
void find_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) throw Error(ErrorKind::unavailable, std::string("this host's NCCL (libnccl.so.2) has no ") + name);
}

NcclLibrary load_library() {
  // Multicast over NVLink gains nothing between two ranks.
  ::setenv("NCCL_NVLS_ENABLE", "0", 0);
  // Its service for inspecting running jobs listens on a port without a token, and crashes when peers die (nccl#1996).
  ::setenv("NCCL_RAS_ENABLE", "0", 0);
  void* library = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw Error(ErrorKind::unavailable, std::string("NCCL cannot be loaded: ") + ::dlerror() +
                                            "; install libnccl2, or name its folder in LD_LIBRARY_PATH");
  }
  NcclLibrary found;
  found.handle = library;
  decltype(&ncclGetVersion) get_version = nullptr;
  find_function(library, "ncclGetVersion", get_version);
  get_version(&found.version);
  if (found.version < least_version) {
    throw Error(ErrorKind::unavailable, "this host's NCCL is older than 2.18: install a newer one");
  }
  find_function(library, "ncclGetUniqueId", found.get_unique_id);
  find_function(library, "ncclCommInitRankConfig", found.comm_init);
  find_function(library, "ncclCommFinalize", found.comm_finalize);
  find_function(library, "ncclCommDestroy", found.comm_destroy);
  find_function(library, "ncclCommAbort", found.comm_abort);
  find_function(library, "ncclCommGetAsyncError", found.comm_state);
  find_function(library, "ncclGetErrorString", found.error_string);
  find_function(library, "ncclGetLastError", found.last_error);
  find_function(library, "ncclSend", found.send);
  find_function(library, "ncclRecv", found.receive);
  find_function(library, "ncclGroupStart", found.group_start);
  find_function(library, "ncclGroupEnd", found.group_end);
  return found;
}

}  // namespace

void* NcclLibrary::find(const char* name) const { return ::dlsym(handle, name); }

const NcclLibrary& nccl() {
  static const NcclLibrary library = load_library();
  return library;
}

std::string describe_nccl() {
  try {
    const int version = nccl().version;
    const NcclPuts& puts = nccl_puts();
    return "ok: " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
           std::to_string(version % 100) + (puts.functions ? ", which puts" : "; no puts: " + puts.missing);
  } catch (const Error& error) {
    return std::string("none: ") + error.what();
  }
}

}  // namespace pipetrain
