// The kinds of devices that there are.
#pragma once

namespace pipetrain {

enum class DeviceKind { cpu, cuda };

}  // namespace pipetrain
