//===- PrecompiledMLIR.cpp - The target of the precompiled header ---------===//
