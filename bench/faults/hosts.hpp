// Hosts to try links on: network namespaces of this one, joined by a bridge.
#pragma once

#include <string>

namespace pipetrain::bench {

// Needs root and ip(8).
class Hosts {
 public:
  explicit Hosts(int count);
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  bool made() const { return made_; }  // else this host does not let us
  std::string name(int host) const;    // of its namespace
  std::string address(int host) const;
  // Cuts or joins the wire of a host.
  void link(int host, bool up) const;

 private:
  int count_;
  std::string prefix_;
  bool made_ = false;
};

}  // namespace pipetrain::bench
