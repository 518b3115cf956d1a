#include "actors/training/offload/offloaded_array.hpp"

#include <cassert>

namespace pipetrain {
namespace {

struct Pages {
  std::size_t begin = 0, end = 0;  // bytes
};

Pages pages_of(const Region& elements, DType type) {
  constexpr std::size_t page = OffloadStorage::granularity;
  const std::size_t begin = elements.begin * size_of(type), end = elements.end * size_of(type);
  return {begin / page * page, (end + page - 1) / page * page};
}

}  // namespace

StorageBytes OffloadedArray::bytes(const Lengths& lengths) {
  // A range may begin and end within a page.
  return {page_bytes({0, lengths.elements}, lengths.type),
          page_bytes({0, lengths.largest}, lengths.type) + OffloadStorage::granularity};
}

OffloadedArray::OffloadedArray(const Setup& setup, const Lengths& lengths) : setup_(setup), lengths_(lengths) {
  const StorageBytes all = bytes(lengths);
  storage_ = setup.folder.empty() ? make_host_storage(setup.device, all.all, setup.name)
                                  : make_disk_storage(setup.device, setup.folder, all);
}

std::size_t OffloadedArray::lead(const Region& elements, DType type) {
  return elements.begin - pages_of(elements, type).begin / size_of(type);
}

std::size_t OffloadedArray::page_bytes(const Region& elements, DType type) {
  const Pages pages = pages_of(elements, type);
  return pages.end - pages.begin;
}

void OffloadedArray::fetch(const Region& elements, void* pages) {
  const Pages own = pages_of(elements, lengths_.type);
  storage_->fetch(*setup_.streams.in, own.begin, pages, own.end - own.begin);
}

void OffloadedArray::store(const Region& elements, const void* pages) {
  const Pages own = pages_of(elements, lengths_.type);
  assert(lead(elements, lengths_.type) == 0);
  storage_->store(*setup_.streams.out, own.begin, pages, own.end - own.begin);
}

void OffloadedArray::read(std::size_t begin, float* values, std::size_t count) {
  assert(lengths_.type == DType::f32);
  setup_.streams.synchronize();
  storage_->read(begin * sizeof(float), values, count * sizeof(float));
}

void OffloadedArray::write(std::size_t begin, const float* values, std::size_t count) {
  assert(lengths_.type == DType::f32);
  setup_.streams.synchronize();
  storage_->write(begin * sizeof(float), values, count * sizeof(float));
}

}  // namespace pipetrain
