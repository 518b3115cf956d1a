// The kinds of devices.
#pragma once

namespace pipetrain {

enum class DeviceKind { cpu, cuda };

}  // namespace pipetrain
