#include "comm/transport.hpp"

#include "comm/cuda/ipc_transport.hpp"
#include "comm/nccl/nccl_transport.hpp"
#include "comm/transport_memory.hpp"
#include "comm/ucx/ucx_transport.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

struct Kind {
  TransportKind kind;
  const char* name;
  DeviceKind devices;  // whose memory it carries
  bool one_host;       // all processes must run on one host
  bool (*built)();
  std::unique_ptr<Transport> (*make)(ControlPlane&, const Mesh&);
  bool mirrors;  // see keeps_mirrors()
  std::size_t (*group_memory)(int ranks);
};

std::size_t no_memory(int) { return 0; }

template <NcclWay way>
std::unique_ptr<Transport> make_nccl(ControlPlane& control, const Mesh& mesh) {
  return make_nccl_transport(control, mesh, way);
}

// A run gets the first kind that can carry its ranks.
constexpr Kind kinds[] = {
    {TransportKind::ucx, "ucx", DeviceKind::cpu, false, has_ucx, make_ucx_transport, true, ucx_group_memory},
    {TransportKind::ipc, "ipc", DeviceKind::cuda, true, has_ipc, make_ipc_transport, false, no_memory},
    {TransportKind::nccl, "nccl", DeviceKind::cuda, false, has_nccl, make_nccl<NcclWay::any>, true, nccl_group_memory},
    {TransportKind::nccl_put, "nccl-put", DeviceKind::cuda, false, has_nccl, make_nccl<NcclWay::put>, true, nccl_group_memory},
    {TransportKind::nccl_send, "nccl-send", DeviceKind::cuda, false, has_nccl, make_nccl<NcclWay::send>, true,
     nccl_group_memory},
};

const Kind& entry(TransportKind kind) {
  for (const Kind& candidate : kinds) {
    if (candidate.kind == kind) return candidate;
  }
  throw Error(ErrorKind::internal, "a kind of transport that is not in the table");
}

const char* device_name(DeviceKind devices) { return devices == DeviceKind::cpu ? "CPUs" : "GPUs"; }

// Returns a process on another host than process 0, or -1.
int first_on_another_host(const ControlPlane& control) {
  for (int process = 1; process < control.processes(); ++process) {
    if (control.info(process).machine != control.info(0).machine) return process;
  }
  return -1;
}

// Returns the reason why the kind cannot carry the ranks; empty where it can.
std::string why_not(const Kind& kind, const ControlPlane& control, DeviceKind devices) {
  if (kind.devices != devices) {
    return std::string("it carries the memory of ") + device_name(kind.devices) + ", and the ranks run on " +
           device_name(devices);
  }
  const int far = kind.one_host ? first_on_another_host(control) : -1;
  if (far < 0) return {};
  return "it joins processes of one host, and " + to_string(control.info(far)) + " runs on another one than " +
         to_string(control.info(0));
}

}  // namespace

const char* to_string(TransportKind kind) noexcept {
  for (const Kind& candidate : kinds) {
    if (candidate.kind == kind) return candidate.name;
  }
  return "unknown";
}

TransportKind choose_transport(const ControlPlane& control, const Mesh&, DeviceKind devices, const TransportKind* wanted) {
  if (wanted != nullptr) {
    const Kind& kind = entry(*wanted);
    if (const std::string why = why_not(kind, control, devices); !why.empty()) {
      throw Error(ErrorKind::input, Setting{"transport", kind.name}, why);
    }
    if (!kind.built())
      throw Error(ErrorKind::unavailable, Setting{"transport", kind.name},
                  "this build does not have it; use another, or a build that has it");
    return *wanted;
  }
  std::string missing;
  for (const Kind& kind : kinds) {
    if (!why_not(kind, control, devices).empty()) continue;
    if (kind.built()) return kind.kind;
    missing += (missing.empty() ? "" : ", ") + std::string(kind.name);
  }
  throw Error(ErrorKind::unavailable, std::string("ranks on ") + device_name(devices) +
                                          " of different processes cannot reach each other: this build has none of the "
                                          "transports that could join them (" +
                                          missing + "); run all ranks in one process, or build it with one");
}

TransportKind usual_transport(DeviceKind devices, bool one_host) {
  for (const Kind& kind : kinds) {
    if (kind.devices == devices && (one_host || !kind.one_host)) return kind.kind;
  }
  throw Error(ErrorKind::internal, std::string("no transport joins ") + device_name(devices));
}

bool keeps_mirrors(TransportKind kind) { return entry(kind).mirrors; }

std::size_t group_memory(TransportKind kind, int ranks) { return entry(kind).group_memory(ranks); }

std::unique_ptr<Transport> make_transport(TransportKind kind, ControlPlane& control, const Mesh& mesh) {
  return entry(kind).make(control, mesh);
}

}  // namespace pipetrain
