// The extension module pipetrain._engine. The package around it is what programs import.
#include "bindings/python/bind.hpp"

NB_MODULE(_engine, module) {
  module.attr("__version__") = PIPETRAIN_VERSION;
  pipetrain::python::bind_errors(module);
  pipetrain::python::bind_plan(module);
  pipetrain::python::bind_simulation(module);
  pipetrain::python::bind_world(module);
  pipetrain::python::bind_pipeline(module);
  pipetrain::python::bind_training(module);
}
