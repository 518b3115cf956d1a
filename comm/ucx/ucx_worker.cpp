#include "comm/ucx/ucx_worker.hpp"

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <ucs/config/global_opts.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <future>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "comm/ucx/ucx_process.hpp"
#include "comm/ucx/ucx_tcp_admission.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

// UCX uses shared memory for connections that report a peer's death only when told to. UCX 1.13 reads this from the
// environment, not from ucp_config_modify(). The user's setting has precedence.
void allow_shared_memory() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const char* name : {"UCX_POSIX_ERROR_HANDLING", "UCX_SYSV_ERROR_HANDLING"}) setenv(name, "y", 0);
  });
}

// Returns the environment's settings of UCX: they are the usual reason why it cannot start.
std::string settings_of_ucx() {
  std::string settings;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry, name = text.substr(0, text.find('='));
    const bool own = name == "UCX_POSIX_ERROR_HANDLING" || name == "UCX_SYSV_ERROR_HANDLING" || name == "UCX_HANDLE_ERRORS";
    if (name.starts_with("UCX_") && !own) settings += (settings.empty() ? "" : ", ") + std::string(text);
  }
  return settings;
}

// Puts the files of shared memory into `folder`. Where UCX has no such setting by either name, they stay in its default folder.
void choose_folder(ucp_config_t* config, const UcxFolder* folder) {
  if (folder == nullptr) return;
  for (const char* name : {"DIR", "POSIX_DIR"}) (void)ucp_config_modify(config, name, folder->path().c_str());
}

// The user's setting has precedence.
void limit_reach(ucp_config_t* config, const UcxWorker::Reach& reach) {
  using Ways = UcxWorker::Reach::Ways;
  if (reach.ways != Ways::all && std::getenv("UCX_TLS") == nullptr)
    check_ucx(ucp_config_modify(config, "TLS", reach.ways == Ways::network ? "^sm" : "sm"), "choose its transports");
  if (reach.net_devices.empty() || std::getenv("UCX_NET_DEVICES") != nullptr) return;
  check_ucx(ucp_config_modify(config, "NET_DEVICES", reach.net_devices.c_str()), "choose its network devices");
}

ucp_context_h open_context(const UcxWorker::Reach& reach, const UcxFolder* folder) {
  ucp_config_t* config = nullptr;
  check_ucx(ucp_config_read(nullptr, nullptr, &config), "read its configuration", remedy_by_ucx_settings());
  choose_folder(config, folder);
  limit_reach(config, reach);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "pipetrain";
  ucp_context_h context = nullptr;
  const ucs_status_t status = ucp_init(&params, config, &context);
  ucp_config_release(config);
  check_ucx(status, "start", remedy_by_ucx_settings());
  return context;
}

[[noreturn]] void fail_descriptors() {
  throw Error(ErrorKind::unavailable,
              "UCX cannot start: the limit on open files of a process leaves it too few; raise ulimit -n");
}

void check_descriptor(int descriptor) {
  if (descriptor < 0) fail_descriptors();
}

// UCX aborts the process, or reports a misleading error, when descriptors run out. It opens 18 on a host whose only
// network is TCP.
void require_descriptors() {
  constexpr rlim_t least_free = 24;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
  if (error == std::errc::too_many_files_open) fail_descriptors();
  rlim_t open = 0;
  for (; !error && entry != end; entry.increment(error)) ++open;
  if (!error && open + least_free > limit.rlim_cur) fail_descriptors();
}

}  // namespace

std::string remedy_by_ucx_settings() {
  const std::string settings = settings_of_ucx();
  return settings.empty()
             ? "; `ucx_info -d` shows what UCX finds here, UCX_TLS and UCX_NET_DEVICES choose among that"
             : "; its settings are " + settings + ": correct or unset these, `ucx_info -d` shows what it finds here";
}

void quiet_ucx() {
  if (std::getenv("UCX_LOG_LEVEL") == nullptr) (void)ucs_global_opts_set_value("LOG_LEVEL", "fatal");
}

void check_ucx(ucs_status_t status, const char* what, const std::string& remedy) {
  if (UCS_STATUS_IS_ERR(status)) {
    throw Error(ErrorKind::unavailable, std::string("UCX cannot ") + what + ": " + ucs_status_string(status) + remedy);
  }
}

UcxWorker::UcxWorker(const Reach& reach) {
  quiet_ucx();
  allow_shared_memory();
  std::promise<void> opened;
  auto result = opened.get_future();
  thread_ = std::thread([this, &reach, &opened] {
    pthread_setname_np(pthread_self(), "ucx");
    try {
      open(reach);
    } catch (...) {
      close();
      opened.set_exception(std::current_exception());
      return;
    }
    opened.set_value();
    run();
    close();
  });
  try {
    result.get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

UcxWorker::~UcxWorker() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake();
  thread_.join();
}

void UcxWorker::open(const Reach& reach) {
  require_descriptors();
  posted_events_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  check_descriptor(posted_events_);
  const auto opening = begin_ucx_opening();
  if (std::getenv("UCX_POSIX_DIR") == nullptr) folder_ = UcxFolder::open();  // the user's setting has precedence
  const std::set<int> before = listening_sockets_of_this_process();
  context_ = open_context(reach, folder_.get());
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  check_ucx(ucp_worker_create(context_, &params, &worker_), "make a worker", remedy_by_ucx_settings());
  check_ucx(ucp_worker_get_efd(worker_, &worker_events_), "wait for events");
  const Bytes address = own_address();
  for (const int socket : listening_sockets_of_this_process())
    if (before.count(socket) == 0 && names_port_of(address, socket)) listening_sockets_.push_back(socket);
  for (const int socket : listening_sockets_) admit_connections(socket, {});
}

void UcxWorker::close() noexcept {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
  folder_.reset();
  if (posted_events_ >= 0) ::close(posted_events_);
}

void UcxWorker::post(std::function<void()> work) {
  bool wake_up;
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(work));
    wake_up = std::exchange(asleep_, false);
  }
  if (wake_up) wake();
}

void UcxWorker::call(const std::function<void()>& work) {
  std::promise<void> done;
  post([&] {
    try {
      work();
      done.set_value();
    } catch (...) {
      done.set_exception(std::current_exception());
    }
  });
  done.get_future().get();
}

Bytes UcxWorker::address() {
  Bytes address;
  call([&] { address = own_address(); });
  return address;
}

Bytes UcxWorker::own_address() {
  ucp_address_t* address = nullptr;
  std::size_t size = 0;
  check_ucx(ucp_worker_get_address(worker_, &address, &size), "get its address");
  const auto* begin = reinterpret_cast<const std::byte*>(address);
  const Bytes copy(begin, begin + size);
  ucp_worker_release_address(worker_, address);
  return copy;
}

void UcxWorker::wake() noexcept {
  const std::uint64_t one = 1;
  while (::write(posted_events_, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

bool UcxWorker::run_posted() {
  {
    const std::lock_guard lock(mutex_);
    if (posted_.empty()) return false;
    running_.swap(posted_);
  }
  for (auto& work : running_) {
    work();
    work = nullptr;  // its captures may be destroyed here
  }
  running_.clear();
  return true;
}

void UcxWorker::run() {
  for (;;) {
    const bool ran = run_posted();
    const bool moved = ucp_worker_progress(worker_) != 0;
    if (ran || moved) continue;
    {
      const std::lock_guard lock(mutex_);
      if (!posted_.empty()) continue;
      if (stop_) return;
      asleep_ = true;
    }
    sleep();
    const std::lock_guard lock(mutex_);
    asleep_ = false;
  }
}

// Returns at once when UCX cannot be armed because something has just arrived.
void UcxWorker::sleep() {
  const ucs_status_t armed = ucp_worker_arm(worker_);
  if (armed == UCS_ERR_BUSY) return;
  events_.assign({{worker_events_, POLLIN, 0}, {posted_events_, POLLIN, 0}});
  for (const Watched& watched : watched_) events_.push_back({watched.descriptor, POLLIN, 0});
  // Without a result, the wait was interrupted or UCX could not arm it; UCX is then asked again soon.
  if (poll(events_.data(), events_.size(), armed == UCS_OK ? -1 : 10) <= 0) return;
  if (events_[1].revents != 0) {
    std::uint64_t count;
    (void)!::read(posted_events_, &count, sizeof count);
  }
  run_readable();
}

void UcxWorker::run_readable() {
  std::vector<std::function<void()>> readable;
  for (std::size_t i = 2; i < events_.size(); ++i) {
    if (events_[i].revents != 0) readable.push_back(std::move(watched_[i - 2].readable));
  }
  if (readable.empty()) return;
  std::erase_if(watched_, [](const Watched& watched) { return watched.readable == nullptr; });
  while (ucp_worker_progress(worker_) != 0) {
  }
  for (const auto& call : readable) call();
}

void UcxWorker::watch(int descriptor, std::function<void()> readable) { watched_.push_back({descriptor, std::move(readable)}); }

void UcxWorker::forget(int descriptor) {
  std::erase_if(watched_, [descriptor](const Watched& watched) { return watched.descriptor == descriptor; });
}

UcxMemory::UcxMemory(UcxWorker& worker, void* data, std::size_t bytes) : worker_(worker) {
  if (bytes == 0) return;
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
  params.address = data;
  params.length = bytes;
  params.memory_type = UCS_MEMORY_TYPE_HOST;
  const ucs_status_t status = ucp_mem_map(worker_.context(), &params, &handle_);
  if (status != UCS_OK) {
    throw Error(ErrorKind::out_of_memory,
                "UCX cannot register " + std::to_string(bytes) + " bytes: " + ucs_status_string(status) + "; see ulimit -l");
  }
}

UcxMemory::~UcxMemory() {
  if (handle_ != nullptr) (void)ucp_mem_unmap(worker_.context(), handle_);
}

}  // namespace pipetrain
