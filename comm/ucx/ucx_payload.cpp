#include "comm/ucx/ucx_payload.hpp"

#include <cassert>
#include <cstring>
#include <memory>

namespace pipetrain {
namespace {

using Done = std::function<void(bool)>;

void finish_receive(void* request, ucs_status_t status, std::size_t, void* user_data) {
  const std::unique_ptr<Done> done(static_cast<Done*>(user_data));
  ucp_request_free(request);
  (*done)(status == UCS_OK);
}

}  // namespace

UcxPayload::UcxPayload(ucp_worker_h worker, void* data, std::size_t bytes, std::uint64_t attributes)
    : worker_(worker),
      data_(data),
      bytes_(bytes),
      fetch_((attributes & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0),
      persistent_((attributes & (UCP_AM_RECV_ATTR_FLAG_RNDV | UCP_AM_RECV_ATTR_FLAG_DATA)) != 0) {}

UcxPayload::UcxPayload(UcxPayload&& other) noexcept
    : worker_(other.worker_),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_),
      fetch_(other.fetch_),
      persistent_(other.persistent_),
      owned_(std::exchange(other.owned_, false)),
      copy_(std::move(other.copy_)),
      elsewhere_(std::exchange(other.elsewhere_, nullptr)) {}

UcxPayload::~UcxPayload() {
  if (elsewhere_) elsewhere_(nullptr, [](bool) {});
  if (data_ != nullptr && owned_) ucp_am_data_release(worker_, data_);
}

void UcxPayload::receive(void* target, ucp_mem_h memory, Done done) {
  if (elsewhere_) return std::exchange(elsewhere_, nullptr)(target, std::move(done));
  if (!fetch_) {
    const void* source = copy_.empty() ? data_ : copy_.data();
    if (bytes_ > 0) std::memcpy(target, source, bytes_);
    done(true);
    return;
  }
  assert(data_ != nullptr);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  if (memory != nullptr) {
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    param.memh = memory;
  }
  auto waiting = std::make_unique<Done>(std::move(done));
  param.cb.recv_am = finish_receive;
  param.user_data = waiting.get();
  // The descriptor belongs to UCX again, whatever the result is.
  void* request = ucp_am_recv_data_nbx(worker_, std::exchange(data_, nullptr), target, bytes_, &param);
  if (request != nullptr && !UCS_PTR_IS_ERR(request)) {
    (void)waiting.release();
    return;
  }
  (*waiting)(request == nullptr);
}

UcxPayload UcxPayload::keep() {
  if (persistent_) {
    kept_ = owned_ = true;
  } else if (bytes_ > 0 && !elsewhere_) {
    const auto* bytes = static_cast<const std::byte*>(data_);
    copy_.assign(bytes, bytes + bytes_);
    data_ = nullptr;
  }
  return std::move(*this);
}

}  // namespace pipetrain
