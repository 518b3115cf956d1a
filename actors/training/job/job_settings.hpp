// The settings of a run that all its processes must share, as text that can be compared.
#pragma once

#include "actors/ranks/named_values.hpp"
#include "actors/training/job/run_settings.hpp"

namespace pipetrain {

struct TrainJob;

// Returns the settings as given, by the names of Setting, for Rendezvous::settings. Paths are left out, because machines may
// keep their files in different places. Numbers are written so that equal text means equal bits.
NamedValues job_settings(const RunSettings& settings);

// Returns the contents that were read from files, whatever their paths: the model's shape, the data, the initial state. The
// trainers of a run compare these when they are made.
NamedValues job_contents(const TrainJob& job);
// Those of them that do not depend on where the run begins.
NamedValues lasting_contents(const TrainJob& job);

}  // namespace pipetrain
