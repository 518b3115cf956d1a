#include "actors/ranks/worker.hpp"

#include <pthread.h>

namespace pipetrain {

Worker::Worker(const std::string& name) : thread_([this] { run(); }) {
  pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Worker::post(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

void Worker::run() {
  std::vector<std::function<void()>> batch;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      batch.swap(jobs_);
    }
    for (auto& job : batch) job();
    batch.clear();
  }
}

}  // namespace pipetrain
