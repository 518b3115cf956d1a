// The measured rates of offloaded data.
#include "apps/train/offload_rates.hpp"

#include <filesystem>
#include <memory>
#include <vector>

#include "catch.hpp"
#include "core/device.hpp"
#include "skip.hpp"

using namespace pipetrain;

TEST_CASE("the rates between a device, its host's memory and a disk are those of memory and disks") {
  const auto cpu = make_cpu_device(0, 1);
  const double memory = measured_host_rate({cpu.get()}), disk = measured_disk_rate(std::filesystem::temp_directory_path());
  CHECK(memory > 1e8);
  CHECK(memory < 1e12);
  CHECK(disk > 1e5);
  CHECK(disk < 1e11);
}

TEST_CASE("all GPUs exchange data with their host at once", "[gpu]") {
  if (cuda_device_count() == 0) return test::skip("there is no GPU");
  std::vector<std::unique_ptr<Device>> gpus;
  std::vector<Device*> devices;
  for (int i = 0; i < cuda_device_count(); ++i) devices.push_back(gpus.emplace_back(make_cuda_device(i)).get());
  const double rate = measured_host_rate(devices);
  CHECK(rate > 1e9);
  CHECK(rate < 1e12);
}
