// Which settings of a run all its processes must share, as text that can be compared.
#pragma once

#include "actors/ranks/named_values.hpp"
#include "actors/training/job/run_settings.hpp"

namespace pipetrain {

struct TrainJob;

// Of what was asked for, by the names of Setting: for Rendezvous::settings. Paths are not among them: hosts may keep their
// files in different places. Numbers are written so that equal text means equal bits.
NamedValues job_settings(const RunSettings& settings);

// Of what was read from files, whatever their paths: the model's shape, the data, the state that training begins with. The
// trainers of a run compare these when they are made.
NamedValues job_contents(const TrainJob& job);

}  // namespace pipetrain
