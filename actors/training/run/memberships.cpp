#include "actors/training/run/memberships.hpp"

#include <chrono>
#include <string>
#include <thread>

#include "actors/engine/remote/engine_channel.hpp"
#include "actors/engine/run_failed.hpp"
#include "actors/ranks/run_processes.hpp"
#include "actors/training/job/job_settings.hpp"
#include "actors/training/run/elastic_check.hpp"
#include "comm/control/handshake.hpp"
#include "comm/successive_planes.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Does the work; a failure is told to the other processes of the channel, which may be null.
template <class Work>
void telling_others(const std::shared_ptr<EngineChannel>& channel, const Work& work) {
  try {
    work();
  } catch (...) {
    if (!channel) throw;
    std::rethrow_exception(channel->fail(std::current_exception()));
  }
}

}  // namespace

Memberships::Memberships(TrainJob& job, std::shared_ptr<const StepSamples> training,
                         std::shared_ptr<const StepSamples> evaluation)
    : job_(job), training_(std::move(training)), evaluation_(std::move(evaluation)) {
  if (shares_copies(job_)) copies_.memory = CopyMemory::shared;
  if (job_.processes && job_.processes->joins) {
    join();
    return;
  }
  if (!several() && !has_planes()) job_.processes = nullptr;
  number_ = job_.relayouts + (has_planes() ? job_.processes->planes->membership() : 1);
  check_elastic(job_);
  job_.keeps_copies |= job_.elastic == Elastic::takeover;
  if (several()) channel_ = std::make_shared<EngineChannel>(job_.processes->control);
  telling_others(channel_, [&] {
    if (channel_) compare_contents(job_contents(job_), *channel_);
    begin({});
  });
  if (has_planes()) job_.processes->planes->set_runs(true);
}

bool Memberships::has_planes() const { return job_.processes && job_.processes->planes; }

// Processes of other hosts could not share the memory of copies.
NamedValues Memberships::contents_of_members() const {
  NamedValues contents = lasting_contents(job_);
  if (shares_copies(job_)) contents.emplace_back("host whose memory has the copies of states", control::machine_name());
  return contents;
}

// The others have all copies of states when they call this process.
void Memberships::join() {
  const auto since = Clock::now();
  job_.keeps_copies = true;
  job_.processes->planes->join(contents_of_members());
  job_.processes->joins = false;
  take_plane();
  go_on("this process has joined", since, 0, true);
}

int Memberships::newcomers() {
  if (!has_planes()) return 0;
  if (contents_.empty()) contents_ = contents_of_members();
  return static_cast<int>(job_.processes->planes->newcomers(contents_).size());
}

void Memberships::admit() { job_.processes->planes->admit(); }

bool Memberships::several() const { return job_.processes && job_.processes->control->processes() > 1; }

bool Memberships::leads() const { return !job_.processes || job_.processes->control->process() == 0; }

void Memberships::begin(std::optional<std::int64_t> continued) {
  KeptCopies* const copies = job_.keeps_copies ? &copies_ : nullptr;
  auto made =
      std::make_unique<Membership>(job_, Membership::Setup{channel_, training_, evaluation_, copies, continued, number_});
  {
    const std::lock_guard lock(mutex_);
    membership_ = std::move(made);
  }
  copies_.runs = membership_->layout().mesh().ranks_of(channel_ ? channel_->process() : 0);
}

void Memberships::end() {
  {
    const std::lock_guard lock(mutex_);
    membership_.reset();
  }
  channel_.reset();
}

void Memberships::with_pipeline(const std::function<void(Pipeline&)>& work) const {
  const std::shared_lock lock(mutex_);
  if (membership_) work(membership_->pipeline());
}

bool Memberships::may_renew(const RunFailed& failure) const {
  return has_planes() && failure.process_lost() && failure.everything_stopped();
}

bool Memberships::has_lost_more() const {
  if (!several() || !has_planes()) return false;
  const ControlPlane& control = *job_.processes->control;
  for (int process = 0; process < control.processes(); ++process)
    if (control.is_lost(process)) return process != control.process();
  return false;
}

const Takeover& Memberships::renew(const std::string& cause) {
  const auto since = Clock::now();
  end();
  job_.fault.reset();  // it has happened
  return go_on(cause, since, seconds_since(since), false);
}

const Takeover& Memberships::go_on(const std::string& cause, Clock::time_point since, double ended, bool gathered) {
  for (;; gathered = false) {
    if (!gathered) gather();
    Takeover takeover;
    takeover.cause = cause;
    takeover.membership = number_;
    takeover.joined = has_planes() ? job_.processes->planes->joined() : 0;
    takeover.ended = ended;
    takeover.gathered = seconds_since(since);
    try {
      continue_from_copies(takeover, since);
      return takeovers_.emplace_back(std::move(takeover));
    } catch (const Error& error) {
      end();
      if (error.kind() != ErrorKind::peer_lost || !has_lost_more()) throw;
    }
  }
}

void Memberships::wait_until_lost(int process) const {
  constexpr std::chrono::milliseconds look{5}, patience{5000};
  for (auto left = patience; left.count() > 0 && !job_.processes->control->is_lost(process); left -= look)
    std::this_thread::sleep_for(look);
}

void Memberships::gather() {
  if (has_planes()) {
    job_.processes->planes->gather();
    take_plane();
    const auto& planes = *job_.processes->planes;
    if (planes.layout().changes != job_.relayouts || !planes.all_run()) throw LayoutEnded();
  } else {
    ++number_;
  }
}

void Memberships::take_plane() {
  job_.processes->control = job_.processes->planes->current();
  number_ = job_.relayouts + job_.processes->planes->membership();
  if (several()) channel_ = std::make_shared<EngineChannel>(job_.processes->control);
}

void Memberships::continue_from_copies(Takeover& takeover, Clock::time_point since) {
  telling_others(channel_, [&] {
    const Agreement agreement = gather_copies(channel_.get(), job_, copies_);
    takeover.copied = seconds_since(since);
    takeover.step = agreement.step;
    record_ = agreement.record;
    if (job_.processes) {
      takeover.processes = job_.processes->control->processes();
      job_.processes->process_of = agreement.process_of;
    }
    begin(agreement.from_start ? std::nullopt : std::optional(agreement.step));
    for (const auto* ranks : {&agreement.lost, &agreement.moved})
      for (const int rank : *ranks) takeover.taken.push_back({rank, agreement.process_of[static_cast<std::size_t>(rank)]});
  });
  takeover.begun = seconds_since(since);
}

}  // namespace pipetrain
