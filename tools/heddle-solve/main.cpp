//===- main.cpp - `heddle solve` as a program of its own ------------------===//

#include "heddle/Solver/Command.h"

int main(int Argc, char **Argv) {
  return heddle::solver::runSolveCommand(Argc, Argv);
}
