// Converts the library's exceptions to those of pipetrain/errors.py.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <exception>
#include <stdexcept>

#include "actors/engine/run_failed.hpp"
#include "bindings/guest/misuse.hpp"
#include "bindings/python/bind.hpp"
#include "core/error.hpp"
#include "schedules/plan/plan_text.hpp"
#include "schedules/plan/validate.hpp"

namespace nb = nanobind;

namespace pipetrain::python {

namespace {

void raise(const char* type, const nb::object& error) {
  PyErr_SetObject(nb::module_::import_("pipetrain.errors").attr(type).ptr(), error.ptr());
}

nb::object make(const char* type, const Error& error) {
  nb::object made = nb::module_::import_("pipetrain.errors").attr(type)(error.what());
  made.attr("kind") = to_string(error.kind());
  return made;
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const RunFailed& error) {
    raise_run_failed(error, nb::none());
  } catch (const Misuse& error) {
    raise("MisuseError", make("MisuseError", error));
  } catch (const Error& error) {
    const char* type = error.kind() == ErrorKind::input ? "InputError" : "Error";
    raise(type, make(type, error));
  } catch (const schedules::InvalidPlan& error) {
    raise("PlanError", nb::str(error.what()));
  } catch (const schedules::PlanFileError& error) {
    raise("PlanError", nb::str(error.what()));
  } catch (const std::invalid_argument& error) {  // thrown by schedules/
    raise("InputError", nb::str(error.what()));
  }
}

}  // namespace

void raise_run_failed(const std::exception& failed, const nb::object& cause) {
  const auto& error = dynamic_cast<const RunFailed&>(failed);
  nb::object made = make("RunFailed", error);
  made.attr("waiting") = nb::cast(error.waiting());
  if (!cause.is_none()) made.attr("__cause__") = cause;
  raise("RunFailed", made);
}

void bind_errors(nb::module_&) { nb::register_exception_translator(translate); }

}  // namespace pipetrain::python
