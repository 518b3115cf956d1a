#include "comm/ucx/ucx_net_devices.hpp"

#include "catch.hpp"
#include "comm/control/network_interfaces.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;

TEST_CASE("UCX opens the interface by which the run reaches the process, and RDMA too unless that is loopback") {
  const TempFolder infiniband;
  std::filesystem::create_directories(infiniband.path() / "mlx5_0" / "ports" / "1");
  std::filesystem::create_directories(infiniband.path() / "mlx5_1" / "ports" / "2");
  CHECK(ucx_net_devices("127.0.0.1", infiniband.path()) == "lo");
  CHECK(ucx_net_devices("192.0.2.1", infiniband.path()).empty());  // an address for examples
  for (const NetworkInterface& interface : network_interfaces()) {
    if (interface.is_loopback) continue;
    const std::string device = interface.name.substr(0, interface.name.find(':'));
    CHECK(ucx_net_devices(interface.address, infiniband.path()) == device + ",mlx5_0:1,mlx5_1:2");
    CHECK(ucx_net_devices(interface.address, infiniband.path() / "none") == device);
  }
}
