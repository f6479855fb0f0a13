//===- heddle-opt.cpp - Runs single passes on IR --------------------------===//

#include "heddle/InitAll.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  heddle::registerAllDialects(registry);
  heddle::registerAllPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(
      argc, argv, "Heddle's optimizer and pass driver\n", registry));
}
