//===- Solve.cpp - heddle solve -------------------------------------------===//

#include "Commands.h"

#include "heddle/Solver/Command.h"

#include <string>
#include <vector>

using namespace heddle::tools;

void heddle::tools::addSolveCommand(CLI::App &app, int &result) {
  CLI::App *command = app.add_subcommand(
      "solve", "Solve a problem of the contest on intra-operator parallelism");
  // The solver parses the command line itself, including --help.
  command->prefix_command();
  command->set_help_flag();
  command->callback([command, &result] {
    std::vector<std::string> arguments = command->remaining();
    std::vector<const char *> argv = {"heddle solve"};
    for (const std::string &argument : arguments)
      argv.push_back(argument.c_str());
    result =
        solver::runSolveCommand(static_cast<int>(argv.size()), argv.data());
  });
}
