// Stands in for training.cpp where the module is built without training: it then has no class Training.
#include "bindings/python/bind.hpp"

namespace pipetrain::python {

void bind_training(nanobind::module_&) {}

}  // namespace pipetrain::python
