//===- Import.cpp - heddle import -----------------------------------------===//

#include "../common/Run.h"
#include "Commands.h"
#include "model/Model.h"

using namespace heddle;
using namespace heddle::tools;

void tools::addImportCommand(CLI::App &app, int &result) {
  CLI::App *command = app.add_subcommand(
      "import", "Make the global forward program of a model");
  auto flags = std::make_shared<ModelFlags>();
  auto output = std::make_shared<std::string>();
  addModelFlags(*command, *flags);
  command
      ->add_option("-o,--output", *output,
                   "File to write (default: standard output)")
      ->check(notEmpty("a file to write, or - for standard output"));
  command->callback([flags, output, &result] {
    result = checkModelFlags(*flags);
    if (result != exitSuccess)
      return;
    Compiler compiler;
    auto module = loadModel(compiler, *flags);
    result = mlir::succeeded(module) && writeModule(**module, *output)
                 ? exitSuccess
                 : exitFailure;
  });
}
