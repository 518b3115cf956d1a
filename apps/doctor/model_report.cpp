#include "apps/doctor/model_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <system_error>

#include "core/counted.hpp"
#include "core/error.hpp"
#include "core/text/escape.hpp"
#include "data/tokenizers/chat_program.hpp"
#include "data/tokenizers/tokenizer.hpp"
#include "model/costs.hpp"
#include "model/families/config_report.hpp"
#include "model/families/generation_config.hpp"
#include "model/weights/companion_files.hpp"
#include "model/weights/hf_weight_files.hpp"
#include "model/weights/multimodal_parts.hpp"
#include "model/weights/piecewise_weights.hpp"
#include "model/weights/stored_model.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

// Replaces each number between two dots, so that the tensors of all layers are alike.
std::string without_numbers(const std::string& line) {
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const bool begins = line[i] == '.' && i + 1 < line.size() && line[i + 1] >= '0' && line[i + 1] <= '9';
    out += line[i];
    if (!begins) continue;
    while (i + 1 < line.size() && line[i + 1] >= '0' && line[i + 1] <= '9') ++i;
    out += 'N';
  }
  return out;
}

class Reporter {
 public:
  explicit Reporter(fs::path model) : model_(std::move(model)) {}

  ModelReport run() {
    std::error_code ignored;
    std::optional<ModelConfig> config;
    if (fs::is_regular_file(model_ / "config.json", ignored))
      config = report_keys();
    else
      collect([&] { config = read_stored_config(model_); });
    if (config) report_weights(*config);
    if (fs::is_directory(model_, ignored)) report_text(config);
    add("loads", report_.loads ? "yes" : fmt::format("no: {}", counted(refusals_, "refusal")));
    return std::move(report_);
  }

 private:
  // Names of keys and files may have any bytes.
  void add(const std::string& name, const std::string& text) { report_.facts.push_back({name, escape_controls(text)}); }
  // Reports a fault once, even if several checks find it.
  void refuse(const std::string& line) {
    if (!refused_.insert(line).second) return;
    add("refused", line);
    report_.loads = false;
    ++refusals_;
  }
  // Reports an error of the model as a refusal. Returns false after one.
  bool collect(const std::function<void()>& read) {
    try {
      read();
      return true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::input) throw;
      refuse(error.what());
      return false;
    }
  }

  std::optional<ModelConfig> report_keys() {
    ConfigReport keys;
    if (!collect([&] { keys = report_config(model_); })) return {};
    if (!keys.is_known)
      add("family",
          fmt::format("none has this model; {} is the nearest, and what follows is read as its model; another family is "
                      "added as docs/add-a-model.md says",
                      keys.family));
    else if (!keys.family.empty())
      add("family", keys.family);
    if (!keys.understood.empty()) add("read", fmt::format("{}", fmt::join(keys.understood, ", ")));
    if (!keys.unused.empty()) add("no effect", fmt::format("{}", fmt::join(keys.unused, ", ")));
    for (const std::string& line : keys.refused) refuse(line);
    if (!keys.is_complete) add("not read", "what follows from the keys that are refused");
    if (keys.config) report_size(*keys.config);
    return keys.config;
  }

  void report_size(const ModelConfig& config) {
    add("model", fmt::format("{} of {}, vocabulary {}, {} positions, {:.4g} million parameters",
                             counted(config.layers, "layer"), config.hidden, config.vocabulary, config.max_positions,
                             static_cast<double>(parameter_count(config)) / 1e6));
  }

  // Tensors that differ in the number of their layer or expert alone share a line.
  void refuse_alike(const std::vector<std::string>& lines) {
    std::map<std::string, std::size_t> alike;
    for (const std::string& line : lines) ++alike[without_numbers(line)];
    for (const std::string& line : lines) {
      std::size_t& count = alike[without_numbers(line)];
      if (count == 0) continue;
      refuse(count == 1 ? line : fmt::format("{} ({} like it)", line, counted(static_cast<std::int64_t>(count - 1), "tensor")));
      count = 0;
    }
  }

  void report_weights(ModelConfig config) {
    std::error_code ignored;
    std::vector<std::string> notes, faults;
    const bool is_folder = fs::is_directory(model_, ignored);
    if (is_folder && rank_files(model_).empty() && !foreign_checkpoint(model_) && !has_weight_files(model_))
      return add("weights", "none: training can begin from random ones (--init random)");
    if (!collect([&] { config = with_head_of_weights(std::move(config), model_, notes); })) return;
    if (is_folder)
      faults = weight_faults(config, model_);
    else
      collect([&] { stored_weights(config, model_); });
    refuse_alike(faults);
    for (const std::string& note : notes) add("note", note);
    if (faults.empty())
      add("weights", fmt::format("{}, as the model needs them", counted(std::ssize(logical_tensors(config)), "tensor")));
    collect([&] {
      if (const auto parts = multimodal_parts(model_))
        add("kept",
            fmt::format("{} of other parts, which training leaves unchanged", counted(std::ssize(parts->parts()), "tensor")));
    });
  }

  void report_text(const std::optional<ModelConfig>& config) {
    const auto files = tokenizer_files(model_);
    const auto is_tokenizer = [](const fs::path& file) {
      const fs::path name = file.filename();
      return name == "tokenizer.json" || name == "tokenizer.model" || name == "vocab.json";
    };
    if (std::any_of(files.begin(), files.end(), is_tokenizer))
      report_tokenizer(config);
    else
      add("tokenizer", "none: data of token ids, or another tokenizer (--tokenizer), is needed");
    if (config) collect([&] { read_end_ids(model_, config->vocabulary); });
  }

  void report_tokenizer(const std::optional<ModelConfig>& config) {
    std::unique_ptr<Tokenizer> tokenizer;
    if (!collect([&] { tokenizer = open_tokenizer(model_); })) return;
    add("tokenizer", fmt::format("{}", counted(tokenizer->vocabulary(), "token")));
    if (config && tokenizer->own_vocabulary() > config->vocabulary)
      add("note", fmt::format("the tokenizer has tokens that the model's vocabulary of {} lacks; a text with one is refused",
                              config->vocabulary));
    ChatForm form;
    if (!collect([&] { form = tokenizer->chat_form(); })) return;
    if (form.is_empty()) return add("chat", "no template: data of messages needs one (--chat-template)");
    if (!form.program) return add("chat", fmt::format("the built-in template {}", form.name));
    add("chat", fmt::format("the template of {}", form.program->file()));
    report_rendering(*form.program);
  }

  // Unknown functions of a template are found only when it is rendered.
  void report_rendering(const ChatProgram& program) {
    const auto message = [](const char* role, const char* text) { return Json::object({{"role", role}, {"content", text}}); };
    Chat chat;
    chat.messages = Json::array({message("user", "Hello."), message("assistant", "Good day.")});
    try {
      program.render_answers(chat);
    } catch (const Error& error) {
      add("note", fmt::format("a chat of a question and an answer is refused: {}", error.what()));
    }
  }

  fs::path model_;
  ModelReport report_;
  std::int64_t refusals_ = 0;
  std::set<std::string> refused_;
};

}  // namespace

ModelReport report_model(const fs::path& model) { return Reporter(model).run(); }

}  // namespace pipetrain
