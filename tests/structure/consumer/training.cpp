#include <iostream>
#include <string>
#include <vector>

#include "actors/training/run/make_train_job.hpp"

int main() {
  using namespace pipetrain;
  RunSettings settings;
  settings.data.sequence_length = 16;
  std::vector<std::string> notes;
  std::cout << make_train_job(settings, notes).dataset->sequence_length();
}
