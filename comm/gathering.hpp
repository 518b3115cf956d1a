// The rule by which the processes that are left of a membership begin the next one.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

namespace pipetrain {

class ProcessHandles;
class StandbySocket;

// A rendezvous of the processes that are left of a membership at one of them, its leader. Processes are named by their
// numbers in the run's first membership, until they are counted anew: the leader is then process 0, and the others follow
// in the order of their first numbers.
struct Gathering {
  int leader = 0;
  std::vector<int> members;                 // of the membership that ended
  std::shared_ptr<ProcessHandles> handles;  // of the run's processes; not null
  // Processes that process 0 has called and that become members; they do not count in the decision whose run it is.
  std::vector<int> newcomers = {};

  // --- for the leader ---
  int places = 0;                               // above all numbers of members and newcomers; 0: as many as processes
  std::shared_ptr<StandbySocket> standby = {};  // at which it listens; not null
  // Members that it knows to be lost. It ends those of its machine after a while, because a stopped process could wake up and
  // train as well; a group that may begin without them has begun, and ended this one, by then.
  std::vector<int> lost = {};
  std::function<bool()> half_wins = {};           // asked where half of the members are here and no more may be; not null
  std::chrono::milliseconds patience{4000};       // for members that are not known to be lost
  std::chrono::milliseconds patience_lost{1000};  // before those that are known to be lost end
};

// True when the leader may begin with the processes that are here (itself included). No member and no newcomer that may still
// come is missing, or the patience is over; and no other group of members could begin too: more than half of those that may be
// alive are here, or half of them where that wins.
bool may_begin(const Gathering& gathering, const std::vector<int>& here, bool patience_is_over);

}  // namespace pipetrain
