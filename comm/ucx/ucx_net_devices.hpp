// The network devices that UCX opens: its TCP device listens on each of them for other processes.
#pragma once

#include <filesystem>
#include <string>

namespace pipetrain {

// Returns the devices of a process that the run reaches at this numeric address, in the format of UCX_NET_DEVICES: the
// interface with the address and, unless that is loopback, every RDMA port in `infiniband` ("eth0,mlx5_0:1"). Empty,
// which means all devices, where no interface has the address.
std::string ucx_net_devices(const std::string& address, const std::filesystem::path& infiniband = "/sys/class/infiniband");

}  // namespace pipetrain
