#include "actors/training/copies/copy_request.hpp"

#include <span>
#include <string_view>

namespace pipetrain {
namespace {

constexpr std::string_view copy_request_begin("\0copies", 7);  // no path has a zero byte

}  // namespace

std::string to_target(const CopyRequest& request) {
  WireWriter out;
  out.number(request.step);
  out.bytes(*request.record);
  const Bytes bytes = std::move(out).data();
  return std::string(copy_request_begin) + std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::optional<CopyRequest> copy_request_of(const std::string& target) {
  if (!target.starts_with(copy_request_begin)) return {};
  WireReader in(std::as_bytes(std::span(target).subspan(copy_request_begin.size())));
  CopyRequest request;
  request.step = in.number<std::int64_t>();
  const auto record = in.bytes();
  request.record = std::make_shared<const Bytes>(record.begin(), record.end());
  in.end();
  return request;
}

}  // namespace pipetrain
