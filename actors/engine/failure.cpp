#include "actors/engine/failure.hpp"

#include <new>

namespace pipetrain {

Failure failure_of(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const MembershipEnds& end) {
    return {.kind = end.kind(), .text = end.what(), .process_lost = true};
  } catch (const Error& error) {
    Failure failure{error.kind(), error.what()};
    failure.names_place = error.names_place();
    if (error.setting() != nullptr) failure.setting = *error.setting();
    return failure;
  } catch (const std::bad_alloc&) {
    return {ErrorKind::out_of_memory, "the host has no memory left"};
  } catch (const std::exception& error) {
    return {ErrorKind::internal, error.what()};
  } catch (...) {
    return {ErrorKind::internal, "code threw an object that is no exception"};
  }
}

std::string line_of(const Failure& failure) {
  const bool plain = failure.where.empty() || failure.names_place || failure.kind == ErrorKind::input;
  return (plain ? "" : failure.where + ": ") + failure.text;
}

std::exception_ptr exception_of(const Failure& failure) {
  const Setting* setting = failure.setting ? &*failure.setting : nullptr;
  return std::make_exception_ptr(Error(failure.kind, failure.text, setting, failure.names_place));
}

}  // namespace pipetrain
