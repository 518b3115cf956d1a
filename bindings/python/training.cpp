// A training run whose steps and samples come from Python: pipetrain/transformers/ drives it.
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/training/run/make_train_job.hpp"
#include "actors/training/run/trainer.hpp"
#include "apps/options/train_options.hpp"
#include "bindings/python/bind.hpp"
#include "core/error.hpp"
#include "data/samples/queued_dataset.hpp"
#include "model/named_model.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pipetrain::python {

namespace {

using Ids = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Not thread-safe. Holds the GIL only to read its arguments.
class Training {
 public:
  // options: those of `pipetrain train`, which must say --shuffle off and --steps.
  Training(const std::vector<std::string>& options, std::int64_t sequence_length)
      : samples_(std::make_shared<QueuedDataset>(std::max<std::int64_t>(sequence_length, 1))) {
    const TrainOptions parsed = parse_train_options(options, {}, this_machine());
    refuse_options(parsed);
    notes_ = parsed.notes;
    placing_errors(parsed.places, [&] {
      TrainJob job = make_train_job(parsed.run, notes_, samples_);
      job.saves = true;
      vocabulary_ = job.config.vocabulary;
      outputs_ = job.config.outputs();
      batch_ = job.batch.global_batch();
      samples_->drop_before(job.steps_done * batch_);
      trainer_ = std::make_unique<Trainer>(std::move(job));
    });
  }

  const std::vector<std::string>& notes() const { return notes_; }
  std::int64_t global_batch() const { return batch_; }
  std::int64_t steps_done() { return trainer().steps_done(); }

  // Queues samples that follow each other in `ids` and `labels`.
  void push(const Ids& ids, const Ids& labels, const std::vector<std::int64_t>& lengths) {
    check(ids, labels, lengths);
    const std::int32_t *id = ids.data(), *label = labels.data();
    for (const std::int64_t length : lengths) {
      samples_->push({{id, id + length}, {label, label + length}, {}});
      id += length;
      label += length;
    }
  }

  StepReport step(double learning_rate) {
    const nb::gil_scoped_release released;
    StepReport report = trainer().step(false, learning_rate);
    samples_->drop_before(report.step * batch_);
    return report;
  }

  void save_model(const std::filesystem::path& folder) {
    const nb::gil_scoped_release released;
    trainer().save_model(folder);
  }

  void save_checkpoint(const std::filesystem::path& folder) {
    const nb::gil_scoped_release released;
    trainer().start_checkpoint(folder).get();
  }

  void close() {
    const nb::gil_scoped_release released;
    trainer_.reset();
  }

 private:
  static void refuse_options(const TrainOptions& options) {
    const auto refuse = [](const char* setting, const char* why) { throw Error(ErrorKind::input, {setting, ""}, why); };
    if (options.processes.several()) refuse("nnodes", "a run that Python drives is in one process; leave it out");
    if (options.run.samples.shuffle) refuse("shuffle", "Python gives the samples in their order; turn it off");
    if (options.run.evaluation.wanted()) refuse("eval-data", "Python evaluates; leave it out");
    if (options.run.saving.folder) refuse("save", "Python says when and where to save; leave it out");
  }

  Trainer& trainer() {
    if (!trainer_) throw Error(ErrorKind::input, "the run is closed; make another one");
    return *trainer_;
  }

  void check(const Ids& ids, const Ids& labels, const std::vector<std::int64_t>& lengths) const {
    std::int64_t total = 0;
    for (const std::int64_t length : lengths) {
      if (length < 0) throw Error(ErrorKind::input, "a sample has a negative length");
      total += length;
    }
    const auto count = static_cast<std::int64_t>(ids.size());
    if (total != count || ids.size() != labels.size())
      throw Error(ErrorKind::input, "the samples have " + std::to_string(total) + " tokens by their lengths, " +
                                        std::to_string(count) + " ids and " + std::to_string(labels.size()) + " labels");
    const auto refuse_at_least = [](const Ids& values, std::int64_t end, const char* what) {
      const auto* most = std::max_element(values.data(), values.data() + values.size());
      if (values.size() > 0 && *most >= end)
        throw Error(ErrorKind::input, std::string(what) + " " + std::to_string(*most) + " is beyond the model's " +
                                          std::to_string(end) + "; check that tokenizer and model belong together");
    };
    refuse_at_least(ids, vocabulary_, "the token id");
    refuse_at_least(labels, outputs_, "the label");
    const auto* least = std::min_element(ids.data(), ids.data() + ids.size());
    if (ids.size() > 0 && *least < 0) throw Error(ErrorKind::input, "the token id " + std::to_string(*least) + " is negative");
  }

  std::shared_ptr<QueuedDataset> samples_;
  std::vector<std::string> notes_;
  std::int64_t vocabulary_ = 0, outputs_ = 0, batch_ = 0;
  std::unique_ptr<Trainer> trainer_;
};

// Returns why the model of a folder's config.json is not built; no value where it is.
std::optional<std::string> model_refusal(const std::string& folder) {
  try {
    named_model(folder, std::nullopt);
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

void bind_training(nb::module_& module) {
  module.def("model_refusal", &model_refusal, "folder"_a);
  nb::class_<StepReport>(module, "TrainedStep")
      .def_ro("step", &StepReport::step)
      .def_ro("loss", &StepReport::loss)
      .def_ro("grad_norm", &StepReport::grad_norm)
      .def_ro("tokens", &StepReport::tokens)
      .def_ro("skipped", &StepReport::skipped)
      .def_ro("seconds", &StepReport::seconds)
      .def_ro("bubble", &StepReport::bubble);
  nb::class_<Training>(module, "Training")
      .def(nb::init<const std::vector<std::string>&, std::int64_t>(), "options"_a, "sequence_length"_a)
      .def_prop_ro("notes", &Training::notes)
      .def_prop_ro("global_batch", &Training::global_batch)
      .def_prop_ro("steps_done", &Training::steps_done)
      .def("push", &Training::push, "ids"_a, "labels"_a, "lengths"_a)
      .def("step", &Training::step, "learning_rate"_a)
      .def("save_model", &Training::save_model, "folder"_a)
      .def("save_checkpoint", &Training::save_checkpoint, "folder"_a)
      .def("close", &Training::close);
}

}  // namespace pipetrain::python
