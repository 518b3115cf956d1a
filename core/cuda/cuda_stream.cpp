#include "core/cuda/cuda_stream.hpp"

#include <cassert>
#include <utility>

#include "core/cuda/cuda_event.hpp"

namespace pipetrain {

namespace {

// A host callback must not call the driver.
thread_local bool in_callback = false;

cudaEvent_t make_native_event(int device, bool timing) {
  cudaEvent_t event = nullptr;
  cuda_check(cudaSetDevice(device), "choosing the device", device);
  cuda_check(cudaEventCreateWithFlags(&event, timing ? cudaEventDefault : cudaEventDisableTiming), "making an event", device);
  return event;
}

}  // namespace

CudaEvent::CudaEvent(int device, bool timing) : device_(device), timing_(timing), event_(make_native_event(device, timing)) {}

void CudaEvent::move_to(int device) {
  if (device == device_) return;
  const cudaEvent_t moved = make_native_event(device, timing_);
  cudaEventDestroy(event_);  // the driver keeps it as long as others wait for it
  event_ = moved;
  device_ = device;
}

CudaEvent::~CudaEvent() { cudaEventDestroy(event_); }

cudaError_t CudaEvent::record_on(cudaStream_t stream, int device) {
  move_to(device);
  const cudaError_t status = cudaEventRecord(event_, stream);
  refused_ = status != cudaSuccess;
  return status;
}

cudaError_t CudaEvent::wait_on(cudaStream_t stream) const { return cudaStreamWaitEvent(stream, event_, 0); }

// Any status but "not ready" ends the waiting: after a fault of the device no event ever completes.
bool CudaEvent::query() const {
  if (refused_) return true;
  const cudaError_t status = cudaEventQuery(event_);
  if (status != cudaErrorNotReady) return true;
  cudaGetLastError();  // clears "not ready", so that the next caller does not take it for a failure
  return false;
}

void CudaEvent::synchronize() const {
  if (!refused_) cudaEventSynchronize(event_);
}

CudaStream::CudaStream(Device& device, const std::string& name) : device_(device), name_(name), index_(device.id().index) {
  cuda_check(cudaSetDevice(index_), "choosing the device", index_);
  cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making stream " + name, index_);
}

CudaStream::~CudaStream() {
  cudaSetDevice(index_);
  cudaStreamSynchronize(stream_);  // host callbacks may still refer to the members
  cudaStreamDestroy(stream_);
}

// The driver and, after a fault, the thread that notices it may both want to make the call: only the first one does.
struct CudaStream::Callback {
  CudaStream* stream;
  std::function<void()> function;
  std::atomic<bool> called{false};

  void call() {
    if (!called.exchange(true)) function();
  }
};

void CudaStream::notice(cudaError_t status, const char* what) const {
  if (status == cudaSuccess) return;
  std::deque<std::shared_ptr<Callback>> orphans;
  {
    const std::lock_guard lock(mutex_);
    try {
      cuda_check(status, "stream " + name_ + ": " + what, index_);
    } catch (...) {
      if (!failure_) failure_ = std::current_exception();
    }
    failed_ = true;
    orphans.swap(callbacks_);
  }
  for (const auto& orphan : orphans) orphan->call();
}

bool CudaStream::begin() {
  const cudaError_t status = cudaSetDevice(index_);
  if (status != cudaSuccess) notice(status, "choosing the device");
  return !failed_;
}

void CudaStream::end(cudaError_t status, const char* what) {
  if (status != cudaSuccess) notice(status, what);
}

// Records and callbacks are enqueued after a failure as well: work that already runs on the device comes before them.
void CudaStream::record(Event& event) {
  begin();
  end(static_cast<CudaRecordable&>(event).record_on(stream_, index_), "recording an event");
}

void CudaStream::wait(const Event& event) {
  if (!begin()) return;
  end(static_cast<const CudaRecordable&>(event).wait_on(stream_), "waiting for an event");
}

void CudaStream::host_callback(std::function<void()> function) {
  auto callback = std::make_shared<Callback>();
  callback->stream = this;
  callback->function = std::move(function);
  {
    const std::lock_guard lock(mutex_);
    callbacks_.push_back(callback);
  }
  // cudaLaunchHostFunc does not call after a fault.
  const auto trampoline = [](cudaStream_t, cudaError_t status, void* data) {
    const std::unique_ptr<std::shared_ptr<Callback>> owned(static_cast<std::shared_ptr<Callback>*>(data));
    Callback& own = **owned;
    if (own.called) return;  // the stream may be gone
    own.stream->notice(status, "enqueued work");
    {
      const std::lock_guard lock(own.stream->mutex_);
      auto& waiting = own.stream->callbacks_;
      if (!waiting.empty() && waiting.front() == *owned) waiting.pop_front();
    }
    in_callback = true;
    own.call();
    in_callback = false;
  };
  begin();
  auto owned = std::make_unique<std::shared_ptr<Callback>>(callback);
  const cudaError_t status = cudaStreamAddCallback(stream_, trampoline, owned.get(), 0);
  if (status == cudaSuccess) {
    owned.release();  // the trampoline owns it now
  } else {
    notice(status, "enqueueing a host callback");
  }
}

void CudaStream::copy(void* target, const void* source, std::size_t bytes) {
  if (bytes == 0 || target == source || !begin()) return;
  end(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, stream_), "a copy");
}

void CudaStream::zero(const Tensor& tensor) {
  if (tensor.bytes() == 0 || !begin()) return;
  end(cudaMemsetAsync(tensor.data, 0, tensor.bytes(), stream_), "zeroing memory");
}

void CudaStream::synchronize() {
  begin();
  notice(cudaStreamSynchronize(stream_), "enqueued work");
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

std::exception_ptr CudaStream::failure() const {
  if (!failed_ && !in_callback) {
    const cudaError_t status = cudaStreamQuery(stream_);
    if (status == cudaErrorNotReady) {
      cudaGetLastError();
    } else {
      notice(status, "enqueued work");
    }
  }
  const std::lock_guard lock(mutex_);
  return failure_;
}

void CudaStream::fail(std::exception_ptr cause) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(cause);
  failed_ = true;
}

CudaStream& cuda_stream(Stream& stream) {
  assert(stream.device().id().kind == DeviceKind::cuda);
  return static_cast<CudaStream&>(stream);
}

}  // namespace pipetrain
