//===- StateNames.cpp - The variables of a training step ------------------===//

#include "heddle/Autodiff/StateNames.h"

using namespace heddle;
using llvm::StringRef;

std::string heddle::getStateName(StateKind kind, StringRef parameter) {
  StringRef prefix;
  switch (kind) {
  case StateKind::AdamWMean:
    prefix = "adamw.m.";
    break;
  case StateKind::AdamWSquare:
    prefix = "adamw.v.";
    break;
  case StateKind::SGDMomentum:
    prefix = "sgd.momentum.";
    break;
  case StateKind::Gradient:
    prefix = "grad.";
    break;
  }
  return (prefix + parameter).str();
}
