// Provokes seeded failures, in one process and in runs of several: nothing may hang, and every error must name its cause.
#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "bench/faults/one_process.hpp"
#include "bench/faults/processes.hpp"

int main(int argc, char** argv) {
  using namespace pipetrain::bench;
  std::map<std::string, Fault> names;
  for (const Fault kind : all_faults) names[to_string(kind)] = kind;
  int runs = 100;
  std::vector<Fault> kinds;

  CLI::App app{"Failures of runs in one process, and of runs of several processes"};
  app.add_option("--faults", runs, "of each kind")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--kind", kinds, "only these, of runs of several processes; several programs may run side by side")
      ->transform(CLI::CheckedTransformer(names))
      ->delimiter(',');
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }

  const bool one = !kinds.empty() || faults_in_one_process(runs);
  const bool several =
      faults_of_processes(runs, kinds.empty() ? std::vector(std::begin(all_faults), std::end(all_faults)) : kinds);
  return one && several ? 0 : 1;
}
