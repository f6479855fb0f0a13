//===- CommandLine.cpp - Command lines of all programs --------------------===//

#include "CommandLine.h"

#include "JobErrors.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <numeric>
#include <utility>

namespace fs = std::filesystem;
using namespace heddle;
using namespace heddle::tools;

int tools::reportError(std::string_view message) {
  if (recordError(message))
    return exitFailure;
  std::fflush(stdout);
  std::fprintf(stderr, "%s: error: %.*s\n", program_invocation_short_name,
               static_cast<int>(message.size()), message.data());
  return exitFailure;
}

int tools::reportUsage(std::string_view message) {
  reportError(message);
  return exitUsage;
}

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

/// Returns the error for a command line that names no subcommand.
static std::string describeMissingCommand(const CLI::App &app) {
  std::string names;
  for (const CLI::App *command :
       app.get_subcommands([](auto *) { return true; }))
    names += (names.empty() ? "" : ", ") + command->get_name();
  std::vector<std::string> found = app.remaining();
  return "expected a command (" + names + ")" +
         (found.empty() ? "" : ", got '" + found[0] + "'");
}

/// Returns the edit distance of two words: the letters to insert, remove or
/// replace.
static size_t getDistance(const std::string &one, const std::string &other) {
  std::vector<size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 0; i < one.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < other.size(); ++j) {
      size_t replaced = diagonal + (one[i] != other[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

/// Returns the arguments before "--" that no command takes.
static std::vector<std::string> getUnknown(const CLI::App &app) {
  std::vector<std::string> found = app.remaining(/*recurse=*/true);
  found.erase(std::find(found.begin(), found.end(), "--"), found.end());
  return found;
}

namespace {
class CommandWithHint final : public CLI::App {
public:
  CommandWithHint(const std::string &description, const std::string &name,
                  OptionHint hint)
      : CLI::App(description, name), hint(std::move(hint)) {}

  const OptionHint hint;
};
} // namespace

CLI::App *tools::addCommand(CLI::App &app, const std::string &name,
                            const std::string &description, OptionHint hint) {
  return app.add_subcommand(
      std::make_shared<CommandWithHint>(description, name, std::move(hint)));
}

/// Returns the error for an argument or option that the command does not take.
static std::string describeUnknownArgument(const CLI::App &app,
                                           const CLI::App &command) {
  std::vector<std::string> found = getUnknown(app);
  auto unknown =
      std::find_if(found.begin(), found.end(), [](const std::string &text) {
        return text.rfind("--", 0) == 0;
      });
  if (unknown == found.end())
    return "expected no further argument of " + command.get_name() +
           (found.empty() ? "" : ", got '" + found[0] + "'");
  size_t end = unknown->find('=');
  std::string name = unknown->substr(2, end - 2), nearest;
  // A name at a larger distance, or with most letters wrong, is no misspelling.
  size_t least = std::min<size_t>(3, name.size() / 2) + 1;
  for (const CLI::Option *option : command.get_options())
    for (const std::string &known : option->get_lnames())
      if (size_t distance = getDistance(name, known); distance < least) {
        least = distance;
        nearest = known;
      }
  std::string error = command.get_name() + " has no option '--" + name + "'";
  if (!nearest.empty())
    return error + ", did you mean --" + nearest + "?";
  auto *hinted = dynamic_cast<const CommandWithHint *>(&command);
  if (!hinted)
    return error;
  // Whether a word behind the option is its value is unknown.
  return error + hinted->hint(name, end == std::string::npos
                                        ? ""
                                        : unknown->substr(end + 1));
}

namespace {

/// Prints the help. A flag that may have a value is printed as
/// `--remarks[=BYTES]`; its option text is the part in brackets. CLI11 itself
/// would print the default value: `--remarks{1048576}`.
class HelpFormatter final : public CLI::Formatter {
public:
  std::string make_option_name(const CLI::Option *option,
                               bool isPositional) const override {
    std::string name = CLI::Formatter::make_option_name(option, isPositional);
    return mayHaveValue(option)
               ? name.substr(0, name.find('{')) + option->get_option_text()
               : name;
  }
  std::string make_option_opts(const CLI::Option *option) const override {
    return mayHaveValue(option) ? "" : CLI::Formatter::make_option_opts(option);
  }

private:
  static bool mayHaveValue(const CLI::Option *option) {
    return option->get_option_text().rfind("[=", 0) == 0;
  }
};

} // namespace

/// Returns the parser's message. That about an option that was repeated gets
/// plainer words.
static std::string describeProblem(const CLI::ParseError &problem) {
  std::string text = problem.what();
  const std::string once = ": At Most 1 required but received ";
  size_t at = text.find(once);
  return at == std::string::npos
             ? text
             : text.substr(0, at) + ": expected it once, got it " +
                   text.substr(at + once.size()) + " times";
}

int tools::parseAndRun(CLI::App &app, int argc, char **argv, int &result) {
  auto formatter = std::make_shared<HelpFormatter>();
  for (CLI::App *command : app.get_subcommands([](auto *) { return true; }))
    command->formatter(formatter);
  app.set_version_flag("--version", "Heddle " HEDDLE_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &request) { // --help, --version
    return app.exit(request);
  } catch (const CLI::ParseError &problem) {
    std::vector<CLI::App *> commands = app.get_subcommands();
    if (commands.empty())
      reportError(describeMissingCommand(app));
    else if (dynamic_cast<const CLI::ExtrasError *>(&problem) ||
             (dynamic_cast<const CLI::RequiredError *>(&problem) &&
              !getUnknown(app).empty())) // misspelt
      reportError(describeUnknownArgument(app, *commands[0]));
    else
      reportError(describeProblem(problem));
    if (!leavesErrors())
      std::fprintf(stderr, "see %s%s%s --help\n", program_invocation_short_name,
                   commands.empty() ? "" : " ",
                   commands.empty() ? "" : commands[0]->get_name().c_str());
    return exitUsage;
  } catch (const std::exception &problem) {
    return reportError(problem.what());
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Checks of options
//===----------------------------------------------------------------------===//

CLI::Validator tools::number(const std::string &expected,
                             const std::string &name,
                             const std::function<bool(double)> &accepts) {
  return CLI::Validator(
      [=](std::string &text) {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && std::isfinite(value) &&
            accepts(value))
          return std::string();
        return "expected " + expected + ", got '" + text + "'";
      },
      name);
}

CLI::Validator tools::positive() {
  return number("a positive number", "POSITIVE",
                [](double value) { return value > 0; });
}

CLI::Validator tools::notNegative() {
  return number("a number of at least 0", "NONNEGATIVE",
                [](double value) { return value >= 0; });
}

CLI::Validator tools::between(double least, double most) {
  char range[2][32];
  std::snprintf(range[0], sizeof range[0], "%.15g", least);
  std::snprintf(range[1], sizeof range[1], "%.15g", most);
  return number("a number from " + std::string(range[0]) + " to " + range[1],
                std::string(range[0]) + ".." + range[1],
                [=](double value) { return value >= least && value <= most; });
}

CLI::Validator tools::wholeUpTo(uint64_t most) {
  std::string range = std::to_string(most);
  return CLI::Validator(
      [=](std::string &text) {
        uint64_t value = 0;
        auto [end, problem] =
            std::from_chars(text.data(), text.data() + text.size(), value);
        return problem == std::errc() && end == text.data() + text.size() &&
                       value <= most
                   ? std::string()
                   : "expected a whole number from 0 to " + range + ", got '" +
                         text + "'";
      },
      "0.." + range);
}

CLI::Validator tools::folder() {
  return CLI::Validator(
      [](std::string &text) {
        std::error_code ignored;
        if (fs::is_directory(text, ignored))
          return std::string();
        return "expected a folder, got '" + text + "'" +
               (fs::exists(text, ignored) ? "" : ": no such file or directory");
      },
      "DIR");
}

CLI::Validator tools::oneOf(std::vector<std::string> names) {
  return CLI::Validator(
      [=](std::string &text) {
        return std::find(names.begin(), names.end(), text) != names.end()
                   ? std::string()
                   : "expected one of " + CLI::detail::join(names, ", ") +
                         ", got '" + text + "'";
      },
      "{" + CLI::detail::join(names, ",") + "}");
}

CLI::Validator tools::notEmpty(const std::string &what) {
  return CLI::Validator(
      [=](std::string &text) {
        return text.empty() ? "expected " + what + ", got an empty text"
                            : std::string();
      },
      "");
}
