//===- PrecompiledMLIR.cpp - Gives the header's library a source file -----===//
