// The kinds of devices.
#pragma once

namespace pipetrain {

enum class DeviceKind { cpu, cuda };

constexpr const char* name_of(DeviceKind kind) { return kind == DeviceKind::cpu ? "cpu" : "cuda"; }

}  // namespace pipetrain
