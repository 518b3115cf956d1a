#include "schedules/plan/plan_text.hpp"

#include <random>
#include <tuple>

#include "catch.hpp"
#include "schedules/builders/builders.hpp"

using namespace pipetrain::schedules;
using Catch::Matchers::Contains;

namespace {

std::string plan_error(const std::string& text, bool is_csv = false) {
  try {
    is_csv ? parse_pytorch_csv(text, "plan.csv") : parse_plan(text, "plan.txt");
  } catch (const PlanFileError& error) {
    return error.what();
  }
  return "";
}

std::string header(int microbatches, const std::string& more = "") {
  return "schedule: hand\nplacement: looping\nchunks: 1\nmicrobatches: " + std::to_string(microbatches) + "\n" + more;
}

// A text with this beginning that then repeats a unit for ever.
struct Endless : std::streambuf {
  Endless(std::string begin, const std::string& unit) : head(std::move(begin)) {
    while (block.size() < 60000) block += unit;
    setg(head.data(), head.data(), head.data() + head.size());
  }
  int_type underflow() override {
    setg(block.data(), block.data(), block.data() + block.size());
    return traits_type::to_int_type(block.front());
  }
  std::string head, block;
};

}  // namespace

TEST_CASE("plans survive the way to text and back") {
  for (const ScheduleInfo& info : all_schedules())
    for (const int stages : {1, 2, 5}) {
      const Plan plan = with_end_of_step(info.build({stages, info.default_chunks, 6}), {true, stages > 1, true});
      const Plan read = parse_plan(to_text(plan), "plan.txt");
      CHECK(read.schedule == plan.schedule);
      CHECK(read.placement == plan.placement);
      CHECK(read.microbatches == plan.microbatches);
      CHECK(read.stages == plan.stages);
      CHECK(read.braids == plan.braids);
      CHECK(read.ready_rule == plan.ready_rule);
    }
}

TEST_CASE("plans survive PyTorch's CSV") {
  for (const ScheduleInfo& info : all_schedules())
    for (const int stages : {1, 2, 5}) {
      const Plan plan = info.build({stages, info.default_chunks, 6});
      const Plan read = parse_pytorch_csv(to_pytorch_csv(plan), "plan.csv");
      if (stages > 1) CHECK(read.placement == plan.placement);  // with one stage a V is a loop
      CHECK(read.microbatches == plan.microbatches);
      CHECK(read.stages == plan.stages);
      CHECK(read.braids == plan.braids);
      CHECK(read.ready_rule == ReadyRule::none);
    }
}

TEST_CASE("PyTorch's pairs, communication and empty cells are understood") {
  const Plan plan = parse_pytorch_csv(
      "0F0,0UNSHARD,0SEND_F0,3RECV_F0,3F0,,3B0,3SEND_B0,0RECV_B0,(0F1;0B0)OVERLAP_F_B,0SEND_F1,3RECV_F1,3F1,3B1,3SEND_B1,"
      "0RECV_B1,0B1,0RESHARD,0REDUCE_GRAD\r\n"
      "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,1B0,1SEND_B0,1RECV_F1,1F1,2F1,2SEND_F1,,,2RECV_B1,2B1,1B1,1SEND_B1\n",
      "x.csv");
  CHECK(plan.placement == Placement::v_shape(2));
  CHECK(to_pytorch_csv(plan) == "0F0,3F0,3B0,(0F1;0B0)OVERLAP_F_B,3F1,3B1,0B1\n1F0,2F0,2B0,1B0,1F1,2F1,2B1,1B1\n");
}

TEST_CASE("a fault in a plan file is reported with file, line, action and rule") {
  CHECK(plan_error(header(1, "stage 0: F0 Bx\n")) == "plan.txt:5: \"Bx\" is not an action such as F0, 1B3 or N");
  CHECK(plan_error(header(2, "stage 0: F0 B0\n")) == "plan.txt:5: stage 0: F1 is missing");
  CHECK_THAT(plan_error(header(2, "# fine so far\nstage 0: F0 F1 B1 B0\n")),
             Contains("plan.txt:6: stage 0: B1 comes before B0"));
  CHECK_THAT(plan_error(header(1, "stage 0: F0 B0\nstage 0: F0 B0\n")), Contains("plan.txt:6: stage 1 is expected"));
  CHECK_THAT(plan_error(header(1, "stage 0: 1F0\n")), Contains("plan.txt:5") && Contains("1F0"));
  CHECK_THAT(plan_error("schedule 1f1b\n"), Contains("plan.txt:1:"));
  CHECK_THAT(plan_error("colour: red\n"), Contains("plan.txt:1: unknown key \"colour\""));
  CHECK_THAT(plan_error("microbatches: -1\n"), Contains("plan.txt:1: microbatches must be a number"));
  CHECK_THAT(plan_error("placement: round\n"), Contains("neither looping nor v-shape"));
  CHECK_THAT(plan_error("ready: never\n"), Contains("never"));
  CHECK_THAT(plan_error("colo\tu\rr: red\n"), Contains("plan.txt:1: unknown key \"colo?u?r\""));
  CHECK_THAT(plan_error(""), Contains("no stages"));
  CHECK_THAT(plan_error("stage 0: F0 B0\n"), Contains("microbatches"));
  CHECK_THAT(plan_error(header(2, "stage 0: F0 B0 F1 B1\nstage 1: F0 F1 B0 B1\n")), Contains("plan.txt:5: the plan deadlocks"));
}

TEST_CASE("a plan may be written with any blanks, comments and line ends") {
  const Plan plan = parse_plan(
      "# by hand\r\n\r\n  microbatches :\t1 # one\r\nstage  0 :F0\t \tB0  # all\r\n\n   # done\nstage 1: F0 B0", "plan.txt");
  CHECK(plan.stages.size() == 2);
  CHECK(to_text(plan) == to_text(parse_plan(to_text(plan), "again.txt")));
  CHECK(parse_pytorch_csv(" 0F0 ,, 0B0 # all\r\n\r\n1F0,1B0,", "plan.csv").stages == plan.stages);
}

TEST_CASE("a plan beyond what is simulated is refused before it is kept") {
  CHECK_THAT(plan_error("microbatches: 16777217\nstage 0: F0 B0\n"),
             Contains("pp 1 x chunks 1 x microbatches 16777217 is more than 16777216"));
  CHECK_THAT(plan_error("chunks: 32767\nmicrobatches: 1\nstage 0: F0 B0\nstage 1: F0 B0\n"),
             Contains("the plan has 4 actions for pp 2 x chunks 32767"));
  CHECK_THAT(plan_error("1048575F0\n", true), Contains("chunks a rank are too many"));
  CHECK_THAT(plan_error("0F1073741823\n", true), Contains("microbatches 1073741824 is more than"));
  CHECK_THAT(plan_error("microbatches: 1\nmicrobatches: 2\nstage 0: F0 B0\n"),
             Contains("plan.txt:2: microbatches appears twice"));
  CHECK_THAT(plan_error("microbatches: 1\nstage 0: " + std::string(100000, 'F') + "\n"),
             Contains("plan.txt:2: ") && Contains("is longer than any word of a plan"));
  for (const auto& [begin, unit, fault] :
       {std::tuple{"", "stage 0:\n", "at most 65536 stages"}, std::tuple{"stage 0: ", "F0 ", "at most 67108864 actions"}}) {
    Endless endless(begin, unit);
    std::istream text(&endless);
    CHECK_THROWS_WITH(parse_plan(text, "plan.txt"), Contains(fault));
  }
}

TEST_CASE("a fault in a CSV is reported too, also PyTorch's backward in reverse") {
  CHECK(plan_error("0F0,0F1,0B1,0B0\n", true) ==
        "plan.csv:1: stage 0: B1 comes before B0; a chunk must keep the order of microbatches");
  CHECK_THAT(plan_error("0F0,0X0\n", true), Contains("plan.csv:1: \"0X0\" is not an action"));
  CHECK_THAT(plan_error("0F0,0B0\n0F0,1F0,1B0\n", true), Contains("plan.csv:2: virtual stage 0 acts on rank 1"));
  CHECK_THAT(plan_error("(0F0;0B0)PAIR\n", true), Contains("OVERLAP_F_B"));
  CHECK_THAT(plan_error("0F99999999999\n", true), Contains("plan.csv:1"));
  CHECK_THAT(plan_error("\n", true), Contains("no actions"));
  CHECK_THAT(plan_error("0F0\n1F0\n2F0\n\n3F0,4F0\n", true), Contains("5 virtual stages"));
}

TEST_CASE("a pair of PyTorch's is a braid, or refused as in our text") {
  CHECK_THAT(plan_error("0F0,0F1,0B0,0B1\n(1F0;1B0)OVERLAP_F_B,1F1,1B1\n", true),
             Contains("plan.csv:2: stage 1: F0+B0 is no braid: that is a forward and another compute action of another"));
  CHECK_THAT(plan_error(header(2, "stage 0: F0 F1 B0 B1\nstage 1: F0+B0 F1 B1\n")),
             Contains("plan.txt:6: stage 1: F0+B0 is no braid: that is a forward and another compute action of another"));
  CHECK_THAT(plan_error("0F0,(0B0;0F1)OVERLAP_F_B,0B1\n", true), Contains("plan.csv:1: stage 0: B0+F1 is no braid"));
  CHECK_THAT(plan_error("(0F0)OVERLAP_F_B,0B0\n", true), Contains("plan.csv:1: \"(0F0)OVERLAP_F_B\" is not a pair"));
  CHECK_THAT(plan_error("0F0,(0F1;0B0;0B1)OVERLAP_F_B\n", true), Contains("is not a pair: that has two actions"));
  CHECK_THAT(plan_error("0F0,(0F1;0SEND_F0)OVERLAP_F_B,0B0,0B1\n", true), Contains("\"0SEND_F0\" is not an action"));
}

TEST_CASE("transfers of PyTorch's CSV are checked against its compute") {
  const auto fault = [](const std::string& first, const std::string& second) {
    return plan_error(first + "\n" + second + "\n", true);
  };
  const std::string first = "0F0,0SEND_F0,0RECV_B0,0B0", second = "1RECV_F0,1F0,1B0,1SEND_B0";
  CHECK(fault(first, second).empty());
  CHECK(fault("0F0,0B0", "1F0,1B0").empty());
  CHECK(fault("0RECV_B0,0F0,0SEND_F0,0I0,0W0", "1RECV_F0,1F0,1I0,1SEND_B0,1W0").empty());
  CHECK(fault(first, "1F0,1B0,1SEND_B0") == "plan.csv:1: rank 0: 0SEND_F0 has no partner: no cell is 1RECV_F0");
  CHECK(fault("0F0,0RECV_B0,0B0", second) == "plan.csv:2: rank 1: 1RECV_F0 has no partner: no cell is 0SEND_F0");
  CHECK(fault("0F0,0SEND_F0,0B0", second) == "plan.csv:2: rank 1: 1SEND_B0 has no partner: no cell is 0RECV_B0");
  CHECK(fault(first, "1RECV_F0,1F0,1B0") == "plan.csv:1: rank 0: 0RECV_B0 has no partner: no cell is 1SEND_B0");
  CHECK(fault(first + ",0SEND_F1", second) == "plan.csv:1: rank 0: 0SEND_F1: the plan has 1 microbatches, counted from 0");
  CHECK(fault(first + ",0SEND_F0", second) == "plan.csv:1: rank 0: 0SEND_F0 appears twice; keep one of them");
  CHECK(fault(first, "1F0,1RECV_F0,1B0,1SEND_B0") ==
        "plan.csv:2: rank 1: 1RECV_F0 comes after 1F0, which uses what it receives");
  CHECK(fault("0F0,0SEND_F0,0I0,0RECV_B0,0W0", second) ==
        "plan.csv:1: rank 0: 0RECV_B0 comes after 0I0, which uses what it receives");
  CHECK(fault("0SEND_F0,0F0,0RECV_B0,0B0", second) == "plan.csv:1: rank 0: 0SEND_F0 comes before 0F0, whose result it sends");
  CHECK(fault(first, "1RECV_F0,1F0,1SEND_B0,1B0") == "plan.csv:2: rank 1: 1SEND_B0 comes before 1B0, whose result it sends");
  CHECK(fault("0F0,0SEND_F0,0B0", "1RECV_F0,1F0,1B0") ==
        "plan.csv:1: rank 0: 0B0 uses what 1B0 gives, and no cell is 0RECV_B0; a plan that has SEND and RECV has them wherever "
        "ranks change");
  CHECK_THAT(fault("0F0,0RECV_B0,0B0,0SEND_F0", second), Contains("rank 0: the plan deadlocks: 0B0 waits for 1SEND_B0"));
  CHECK_THAT(fault(first + ",0SEND_B0", second), Contains("rank 0: 0SEND_B0: no virtual stage takes it; this is the first"));
  CHECK_THAT(fault(first, second + ",1RECV_B0"), Contains("rank 1: 1RECV_B0: no virtual stage gives it; this is the last"));
  CHECK_THAT(fault(first + ",1SEND_B0", second), Contains("rank 0: 1SEND_B0: virtual stage 1 does not act on this rank"));
  CHECK_THAT(fault(first + ",7RECV_F0", second), Contains("virtual stage 7 does not act on this rank"));
  CHECK_THAT(plan_error("0F0,0SEND_F0,1RECV_F0,1F0,1B0,0B0\n", true), Contains("acts on the same rank, and nothing is sent"));
  for (const char* cell : {"0SEND_F", "SEND_F0", "0SEND_Fx", "0SEND_F0x", "0RECV_F-1", "0UNSHARDx", "0UNSHARD1x"}) {
    INFO(cell);
    CHECK_THAT(plan_error("0F0,0B0," + std::string(cell) + "\n", true), Contains("plan.csv:1: \"") && Contains("\" is not a"));
  }
}

TEST_CASE("broken plan files never do anything but throw PlanFileError") {
  std::mt19937 random(3);
  const std::string good = to_text(build_schedule("zb-v", {2, 2, 4})), csv = to_pytorch_csv(build_schedule("zb-v", {2, 2, 4})),
                    transfers =
                        "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
                        "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n";
  CHECK(plan_error(transfers, true).empty());
  for (int round = 0; round < 4000; ++round) {
    const bool is_csv = round % 2 == 0;
    std::string text = !is_csv ? good : round % 4 == 0 ? csv : transfers;
    for (int i = 0; i < 3; ++i)
      text[random() % text.size()] =
          static_cast<char>(random() % 2 == 0 ? random() % 256 : "FBIW019,;:()\n _SENDRCV"[random() % 22]);
    CAPTURE(text);
    CHECK_NOTHROW(plan_error(text, is_csv));
  }
}
