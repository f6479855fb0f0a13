//===- Progress.cpp - Shows training on a terminal, in a log, as JSON -----===//

#include "heddle_rt/trainer.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdio>

#include <sys/ioctl.h>
#include <unistd.h>

using namespace heddle::runtime;

namespace {

__attribute__((format(printf, 1, 2))) std::string format(const char *form,
                                                         ...) {
  char buffer[256];
  va_list arguments;
  va_start(arguments, form);
  std::vsnprintf(buffer, sizeof(buffer), form, arguments);
  va_end(arguments);
  return buffer;
}

std::string count(double value) {
  if (value >= 1e6)
    return format("%.1fM", value / 1e6);
  if (value >= 1e4)
    return format("%.0fk", value / 1e3);
  if (value >= 1e3)
    return format("%.1fk", value / 1e3);
  return format("%.0f", value);
}

std::string byteCount(size_t bytes) {
  double value = static_cast<double>(bytes);
  if (value >= double(1 << 30))
    return format("%.2f GiB", value / double(1 << 30));
  return format("%.1f MiB", value / double(1 << 20));
}

std::string duration(double seconds) {
  auto whole = static_cast<long>(std::lround(seconds));
  if (whole >= 3600)
    return format("%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  return format("%ld:%02ld", whole / 60, whole % 60);
}

std::string line(const StepReport &report) {
  int width = static_cast<int>(std::to_string(report.steps).size());
  return format("step %*lld/%lld  loss %.4f  norm %.3f  lr %.2e  %s tok/s  ",
                width, static_cast<long long>(report.step),
                static_cast<long long>(report.steps), report.loss,
                report.gradientNorm, report.learningRate,
                count(report.tokensPerSecond).c_str()) +
         duration(report.secondsLeft) + " left  " +
         byteCount(report.bytesPerDevice) + "/device";
}

std::string heldOutLine(int64_t step, double loss, int64_t labels) {
  return format("step %lld  held-out loss %.4f over %s labels",
                static_cast<long long>(step), loss,
                count(static_cast<double>(labels)).c_str());
}

/// Prints at most one line a second, and always the line of the last step.
class Lines : public TrainObserver {
public:
  void step(const StepReport &report) override {
    auto now = std::chrono::steady_clock::now();
    if (report.step != report.steps && shown &&
        now - *shown < std::chrono::seconds(1))
      return;
    shown = now;
    print(line(report));
  }
  void heldOut(int64_t step, double loss, int64_t labels) override {
    print(heldOutLine(step, loss, labels));
  }
  void checkpoint(int64_t step, const std::filesystem::path &path) override {
    print(format("step %lld  checkpoint ", static_cast<long long>(step)) +
          path.string());
  }
  void note(const std::string &text) override { print(text); }

private:
  static void print(const std::string &text) {
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }
  std::optional<std::chrono::steady_clock::time_point> shown;
};

/// Shows steps on one line that it rewrites. Prints everything else above that
/// line.
class Terminal : public TrainObserver {
public:
  ~Terminal() override { finishLine(); }
  void step(const StepReport &report) override {
    current = line(report);
    auto now = std::chrono::steady_clock::now();
    if (report.step != report.steps && shown &&
        now - *shown < std::chrono::milliseconds(50))
      return;
    shown = now;
    rewrite();
  }
  void heldOut(int64_t step, double loss, int64_t labels) override {
    above(heldOutLine(step, loss, labels));
  }
  void checkpoint(int64_t step, const std::filesystem::path &path) override {
    above(format("step %lld  checkpoint ", static_cast<long long>(step)) +
          path.string());
  }
  void note(const std::string &text) override { above(text); }

private:
  void rewrite() const {
    // Cut the line to the terminal's width: a wrapped line cannot be rewritten.
    winsize size{};
    size_t width = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col
                       ? size.ws_col - 1
                       : 79;
    std::printf("\r%s\x1b[K", current.substr(0, width).c_str());
    std::fflush(stdout);
  }
  void above(const std::string &text) {
    std::printf("\r%s\x1b[K\n", text.c_str());
    if (!current.empty())
      rewrite();
    std::fflush(stdout);
  }
  void finishLine() {
    if (!current.empty()) {
      rewrite();
      std::printf("\n");
    }
    std::fflush(stdout);
  }
  std::string current;
  std::optional<std::chrono::steady_clock::time_point> shown;
};

/// Prints one JSON object on each line. Floats are printed so that reading them
/// gives the same bits; infinities and NaN are null.
class JSONLines : public TrainObserver {
public:
  void memory(const DeviceMemory &memory) override {
    print({{"memory_per_device",
            {{"parameters", memory.parameters},
             {"optimizer_state", memory.optimizerState},
             {"gradients", memory.gradients},
             {"counters", memory.counters},
             {"arena", memory.arena},
             {"arguments_and_results", memory.argumentsAndResults},
             {"scratch", memory.scratch}}}});
  }
  void step(const StepReport &report) override {
    nlohmann::ordered_json kinds;
    for (size_t kind = 0; kind < numWorkKinds; ++kind)
      kinds[std::string(name(static_cast<WorkKind>(kind)))] =
          report.times.seconds[kind];
    print({{"step", report.step},
           {"loss", report.loss},
           {"gradient_norm", report.gradientNorm},
           {"learning_rate", report.learningRate},
           {"tokens_per_second", report.tokensPerSecond},
           {"seconds_left", report.secondsLeft},
           {"seconds", report.seconds},
           {"seconds_by_kind", kinds},
           {"bytes_per_device", report.bytesPerDevice}});
  }
  void heldOut(int64_t step, double loss, int64_t labels) override {
    print(
        {{"step", step}, {"held_out_loss", loss}, {"held_out_labels", labels}});
  }
  void checkpoint(int64_t step, const std::filesystem::path &path) override {
    print({{"step", step}, {"checkpoint", path.string()}});
  }
  void note(const std::string &text) override { print({{"note", text}}); }

private:
  static void print(const nlohmann::ordered_json &json) {
    std::printf("%s\n", json.dump(-1, ' ', false,
                                  nlohmann::json::error_handler_t::replace)
                            .c_str());
    std::fflush(stdout);
  }
};

} // namespace

std::unique_ptr<TrainObserver> heddle::runtime::createSilence() {
  class Silence : public TrainObserver {
    void step(const StepReport &) override {}
    void heldOut(int64_t, double, int64_t) override {}
    void checkpoint(int64_t, const std::filesystem::path &) override {}
    void note(const std::string &) override {}
  };
  return std::make_unique<Silence>();
}

std::unique_ptr<TrainObserver>
heddle::runtime::createProgress(ProgressStyle style) {
  switch (style) {
  case ProgressStyle::Terminal:
    return std::make_unique<Terminal>();
  case ProgressStyle::Lines:
    return std::make_unique<Lines>();
  case ProgressStyle::JSON:
    break;
  }
  return std::make_unique<JSONLines>();
}

ProgressStyle heddle::runtime::defaultProgressStyle() {
  return ::isatty(STDOUT_FILENO) ? ProgressStyle::Terminal
                                 : ProgressStyle::Lines;
}
