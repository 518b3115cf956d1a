#include "schedules/protocol/stage_supplies.hpp"

#include "catch.hpp"
#include "schedules/builders/builders.hpp"

using namespace pipetrain::schedules;
using Catch::Matchers::Contains;

namespace {

const Action supplied_f0{ActionKind::forward, 0, 0}, supplied_f1{ActionKind::forward, 0, 1},
    supplied_b0{ActionKind::backward, 0, 0};

StageSupplies supplies_of(const Plan& plan, int stage) {
  return {plan, stage, ImpossibleEvents(std::make_shared<const Plan>(plan), stage)};
}

}  // namespace

TEST_CASE("a forward of the first stage needs tokens and a slot of the next one") {
  StageSupplies supplies = supplies_of(build_schedule("1f1b", {2, 1, 3}), 0);
  CHECK(supplies.missing(supplied_f0, 1) ==
        std::vector<std::string>{"the activation of microbatch 0", "a free slot for its activation"});
  CHECK(supplies.add(InputKind::activation, 0, 0));
  CHECK_FALSE(supplies.add(InputKind::activation, 0, 0));
  CHECK((supplies.has_inputs(supplied_f0) && !supplies.has_credit(supplied_f0)));
  supplies.add_credit(InputKind::activation, 0);
  CHECK(supplies.has_credit(supplied_f0));
  CHECK_FALSE(supplies.has_second_credit(supplied_f0, supplied_f1));
  supplies.add_credit(InputKind::activation, 0);
  CHECK(supplies.has_second_credit(supplied_f0, supplied_f1));
  supplies.take_credit(supplied_f0);
  supplies.take_credit(supplied_f1);
  CHECK(supplies.missing(supplied_f0, 1) == std::vector<std::string>{"a free slot for its activation"});
}

TEST_CASE("a backward of the last stage needs no gradient; its forward needs targets, and no slot") {
  StageSupplies supplies = supplies_of(build_schedule("1f1b", {2, 1, 3}), 1);
  CHECK(supplies.missing(supplied_f0, 1) ==
        std::vector<std::string>{"the activation of microbatch 0", "the target of microbatch 0"});
  CHECK(supplies.has_credit(supplied_f0));
  CHECK(supplies.missing(supplied_b0, 1) == std::vector<std::string>{"a free slot for its gradient"});
  supplies.add_credit(InputKind::gradient, 0);
  CHECK((supplies.has_inputs(supplied_b0) && supplies.has_credit(supplied_b0)));
}

TEST_CASE("inputs of the coming step become those of the step when it begins, unless they are taken back") {
  StageSupplies supplies = supplies_of(build_schedule("1f1b", {2, 1, 3}), 0);
  CHECK(supplies.add_for_coming_step(InputKind::activation, 0, 0));
  CHECK(supplies.add_for_coming_step(InputKind::activation, 0, 1));
  CHECK(supplies.has_coming_inputs(supplied_f0));
  supplies.take_back(0, 0);
  CHECK_FALSE(supplies.has_coming_inputs(supplied_f0));
  supplies.begin_step();
  CHECK_FALSE(supplies.has_inputs(supplied_f0));
  CHECK(supplies.has_inputs(supplied_f1));
}

TEST_CASE("inputs and credits that the stage cannot have are reported") {
  StageSupplies first = supplies_of(build_schedule("1f1b", {2, 1, 3}), 0);
  CHECK_THROWS_WITH(first.check_input(InputKind::activation, 0, 3), Contains("microbatch 3") && Contains("not in the plan"));
  CHECK_THROWS_WITH(first.check_input(InputKind::target, 0, 0), Contains("not the last of the model"));
  CHECK_THROWS_WITH(first.add_credit(InputKind::gradient, 0), Contains("stage 0") && Contains("sends none"));
  CHECK_THROWS_WITH(first.take_back(0, 0), Contains("did not come"));
  StageSupplies last = supplies_of(build_schedule("1f1b", {2, 1, 3}), 1);
  CHECK_THROWS_WITH(last.check_input(InputKind::gradient, 0, 0), Contains("it is the last of the model"));
}
