// Chooses where the data of a run lives, for --offload auto: measures the devices and the disk, simulates every placement,
// and takes the fastest one that fits.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/records/profile.hpp"
#include "apps/options/train_options.hpp"
#include "tuning/data_placements.hpp"

namespace pipetrain {

// The measurements by which a placement was chosen, and the room that there was.
struct PlacedData {
  PlacementSpeed speed;
  DataRoom room;
  std::filesystem::path folder;  // on a disk; empty: none
};

// Replaces the choice that `options` leaves to the program, and those of later layouts of the run, by placements of data, and
// adds a note of each. Takes some seconds. Does nothing where the user chose. Throws Error(out_of_memory) where no placement
// fits, and what opening the run's model and data throws.
void place_data(TrainOptions& options);

// A placement that is faster than the run's by the times of its first steps.
struct BetterPlacement {
  std::vector<std::string> arguments;  // that choose it
  std::string text;                    // for people
};
// Returns no value where the run's own is as good as the best. measured: of the job's first steps.
std::optional<BetterPlacement> corrected_placement(const PlacedData& placed, const TrainJob& job, const Profile& measured);

}  // namespace pipetrain
