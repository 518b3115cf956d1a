// Offload names the state that lives in host memory, or on a disk, between uses instead of in the memory of the device.
// Sources: Ren et al. 2021, "ZeRO-Offload", arXiv 2101.06840; Rajbhandari et al. 2021, "ZeRO-Infinity", arXiv 2104.07857.
#pragma once

#include <filesystem>
#include <string>

namespace pipetrain {

struct Offload {
  bool optimizer = false;             // its states, and master weights that operations do not read
  double optimizer_fraction = 1;      // of them, which is rounded up to whole blocks on each device
  bool parameters = false;            // the weights that operations read, which are fetched ahead of use
  bool gradients = false;             // of attention and MLP blocks' matrices, while nothing is added to them
  bool activations = false;           // of microbatches that wait for their backward, see schedules::offload_activations()
  double activation_fraction = 1;     // of the microbatches of each stage's chunks, at most
  std::filesystem::path folder = {};  // of files for them, on a disk; empty: host memory

  bool any() const { return optimizer || parameters || gradients || activations; }
  bool to_disk() const { return any() && !folder.empty(); }
  // The share of the optimizer's states that moves; 0: none.
  double optimizer_share() const { return optimizer ? optimizer_fraction : 0; }
  // The largest share of activations that moves; 0: none.
  double activation_share() const { return activations ? activation_fraction : 0; }
  void move_activations(double share) {
    activations = share > 0;
    if (activations) activation_fraction = share;
  }
  bool operator==(const Offload&) const = default;
};

// Returns the value of --offload, such as "optimizer,activations".
inline std::string to_string(const Offload& offload) {
  std::string text;
  const auto add = [&text](bool given, const char* word) {
    if (given) text += (text.empty() ? "" : ",") + std::string(word);
  };
  add(offload.optimizer, "optimizer");
  add(offload.parameters, "parameters");
  add(offload.gradients, "gradients");
  add(offload.activations, "activations");
  return text.empty() ? "none" : text;
}

}  // namespace pipetrain
