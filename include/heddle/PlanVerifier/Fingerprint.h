//===- Fingerprint.h - What a plan was made for -----------------*- C++ -*-===//
//
// Short texts by which a plan's prediction says for which program and cluster
// it was made. They are equal in every process and on every machine.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANVERIFIER_FINGERPRINT_H
#define HEDDLE_PLANVERIFIER_FINGERPRINT_H

#include "heddle/Support/Cluster.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>

namespace heddle {

/// Returns a hash of a program's named operators with the sizes of their named
/// factors, and of its parameters and buffers with their shapes. Rows,
/// positions, types and the optimizer do not count: a prediction states them.
std::string getFingerprint(mlir::ModuleOp module);

/// Returns a hash of a cluster without its name and memory. A prediction states
/// the name. A plan may be made for less memory than there is.
std::string getFingerprint(const Cluster &cluster);

} // namespace heddle

#endif // HEDDLE_PLANVERIFIER_FINGERPRINT_H
