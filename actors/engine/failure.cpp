#include "actors/engine/failure.hpp"

#include <new>

namespace pipetrain {

Failure failure_of(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  } catch (const std::bad_alloc&) {
    return {ErrorKind::out_of_memory, "the host has no memory left"};
  } catch (const std::exception& error) {
    return {ErrorKind::internal, error.what()};
  } catch (...) {
    return {ErrorKind::internal, "something was thrown that is no exception"};
  }
}

std::exception_ptr exception_of(const Failure& failure) { return std::make_exception_ptr(Error(failure.kind, failure.text)); }

}  // namespace pipetrain
