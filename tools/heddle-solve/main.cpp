//===- main.cpp - `heddle solve` as a program of its own ------------------===//

#include "heddle/Solver/Command.h"

int main(int argc, char **argv) {
  return heddle::solver::runSolveCommand(argc, argv);
}
