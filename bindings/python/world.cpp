// The processes of a run in Python, and the memory in which values are sent between them.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "bindings/guest/guest_processes.hpp"
#include "bindings/python/bind.hpp"
#include "bindings/python/far_slot.hpp"
#include "comm/control/launch_environment.hpp"
#include "comm/cuda/ipc_transport.hpp"
#include "comm/nccl/nccl_transport.hpp"
#include "comm/ucx/ucx_transport.hpp"
#include "core/error.hpp"
#include "core/native_stream.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pipetrain::python {

namespace {

struct FarSlot {
  SlotHandle slot;

  Lane& lane() const { return slot->lanes.front(); }
  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(lane().tensor.data); }
  std::size_t capacity() const { return lane().capacity; }
  nb::bytes note() const { return nb::bytes(slot->note.data(), slot->note.size()); }

  // Notes, for the producer, that `bytes` of the memory have been filled. The note describes them.
  void fill(std::size_t bytes, const nb::bytes& note) const {
    if (note.size() > most_note_bytes)
      throw Error(ErrorKind::input, "the description of a value takes " + std::to_string(note.size()) + " bytes; " +
                                        std::to_string(most_note_bytes) +
                                        " can be sent: send fewer parts, or fewer that are no tensors");
    slot->note.assign(note.c_str(), note.size());
    const auto unit = static_cast<std::int64_t>(size_of(lane().tensor.dtype));
    lane().tensor.shape = {(static_cast<std::int64_t>(bytes) + unit - 1) / unit};
  }

  // stream: of this GPU. Do nothing where the memory needs no events.
  void wait(const std::shared_ptr<Event>& event, std::uintptr_t stream, int gpu) const {
    if (event) let_native_wait(*event, stream, gpu);
  }
  void mark(const std::shared_ptr<Event>& event, std::uintptr_t stream, int gpu) const {
    if (event) record_on_native(*event, stream, gpu);
  }
};

// Exposes all of a slot's memory as bytes, for DLPack. The slot lives as long as its pipeline.
nb::ndarray<> memory_of(nb::handle self, bool gpu, int index) {
  const auto& far = nb::cast<const FarSlot&>(self);
  const std::size_t shape[] = {far.capacity()};
  return nb::ndarray<>(reinterpret_cast<void*>(far.address()), 1, shape, self, nullptr, nb::dtype<std::uint8_t>(),
                       gpu ? nb::device::cuda::value : nb::device::cpu::value, gpu ? index : 0);
}

nb::object launch_place() {
  std::map<std::string, std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const auto end = text.find('=');
    if (end != std::string::npos) environment[text.substr(0, end)] = text.substr(end + 1);
  }
  const auto place = read_launch_environment(environment);
  if (!place) {
    refuse_incomplete_place(environment);
    return nb::none();
  }
  nb::dict told;
  told["launcher"] = place->launcher;
  told["where"] = place->where;
  told["process"] = place->process;
  told["processes"] = place->processes;
  told["local"] = place->local;
  told["job"] = place->job;
  told["host"] = place->host;
  told["port"] = place->port ? nb::object(nb::int_(*place->port)) : nb::object(nb::none());
  return told;
}

std::vector<std::string> transports() {
  std::vector<std::string> built;
  if (has_ucx()) built.push_back(to_string(TransportKind::ucx));
  if (has_ipc()) built.push_back(to_string(TransportKind::ipc));
  if (has_nccl()) built.push_back(to_string(TransportKind::nccl));
  return built;
}

std::shared_ptr<GuestWorld> join(const nb::dict& how) {
  Rendezvous rendezvous;
  rendezvous.process = nb::cast<int>(how["process"]);
  rendezvous.processes = nb::cast<int>(how["processes"]);
  rendezvous.host = nb::cast<std::string>(how["host"]);
  rendezvous.port = nb::cast<std::uint16_t>(how["port"]);
  rendezvous.token = nb::cast<std::string>(how["token"]);
  rendezvous.job = nb::cast<std::string>(how["job"]);
  rendezvous.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(nb::cast<double>(how["timeout"]) * 1000));
  rendezvous.settings = {{"program", "a pipeline of its own stages"}};
  const auto patience = std::chrono::milliseconds(static_cast<std::int64_t>(nb::cast<double>(how["patience"]) * 1000));
  const nb::gil_scoped_release released;
  return std::make_shared<GuestWorld>(rendezvous, patience);
}

}  // namespace

nb::object make_far_slot(const SlotHandle& slot) { return nb::cast(FarSlot{slot}); }

void bind_world(nb::module_& module) {
  nb::class_<FarSlot>(module, "Slot", nb::dynamic_attr())
      .def_prop_ro("address", &FarSlot::address)
      .def_prop_ro("capacity", &FarSlot::capacity)
      .def_prop_ro("note", &FarSlot::note)
      .def("fill", &FarSlot::fill, "bytes"_a, "note"_a)
      .def(
          "memory", [](nb::handle self, std::optional<int> gpu) { return memory_of(self, gpu.has_value(), gpu.value_or(0)); },
          "gpu"_a = nb::none())
      .def(
          "wait_until_free", [](const FarSlot& far, std::uintptr_t stream, int gpu) { far.wait(far.lane().free, stream, gpu); },
          "stream"_a, "gpu"_a)
      .def(
          "mark_ready", [](const FarSlot& far, std::uintptr_t stream, int gpu) { far.mark(far.lane().ready, stream, gpu); },
          "stream"_a, "gpu"_a)
      .def(
          "wait_until_ready",
          [](const FarSlot& far, std::uintptr_t stream, int gpu) { far.wait(far.lane().ready, stream, gpu); }, "stream"_a,
          "gpu"_a)
      .def(
          "mark_free", [](const FarSlot& far, std::uintptr_t stream, int gpu) { far.mark(far.lane().free, stream, gpu); },
          "stream"_a, "gpu"_a);
  nb::class_<GuestWorld>(module, "World")
      .def_prop_ro("process", &GuestWorld::process)
      .def_prop_ro("processes", &GuestWorld::processes)
      .def("name_of", &GuestWorld::name_of, "process"_a)
      .def("leave", &GuestWorld::leave, nb::call_guard<nb::gil_scoped_release>());
  module.def("transports", &transports);
  module.def("join", &join, "how"_a);
  module.def("launch_place", &launch_place);
  module.def("stages_of", &stages_of, "process"_a, "processes"_a, "stages"_a);
}

}  // namespace pipetrain::python
