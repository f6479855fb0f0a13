//===- Families.h - The families of models that can be imported -*- C++ -*-===//

#ifndef HEDDLE_LIB_IMPORT_FAMILIES_H
#define HEDDLE_LIB_IMPORT_FAMILIES_H

#include "Config.h"

#include "heddle/Import/Import.h"

namespace heddle {

/// Each takes a config whose `model_type` was looked at and nothing else, and
/// fails if a key of it is not accounted for.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importGpt2(mlir::MLIRContext &context, Config &config,
           const ImportOptions &options);
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importLlama(mlir::MLIRContext &context, Config &config,
            const ImportOptions &options);

/// Keys that every family has and that do not change the computation: where
/// files came from, how text is generated from the model, what other heads do,
/// and how other programs run it.
void ignoreCommonKeys(Config &config);

/// An error unless `architectures`, if there, names one of the `supported`
/// classes, which have a head for language modelling, or the `base` class,
/// which gets one: transformers' AutoModelForCausalLM does so too.
void checkArchitectures(Config &config,
                        llvm::ArrayRef<llvm::StringRef> supported,
                        llvm::StringRef base);

/// The tokens in a row: the options', or `most` up to 1024.
int64_t chooseSequence(const ImportOptions &options, int64_t most);

/// Compares names and shapes of a folder's weights with the parameters of a
/// module. Reports all tensors that are missing, surplus or of another shape.
/// `prefix` is the base model's: a file may lack it. Tensors that match one of
/// the `harmless` endings are no surplus.
mlir::LogicalResult checkWeights(mlir::ModuleOp module,
                                 llvm::StringRef directory,
                                 llvm::StringRef prefix,
                                 llvm::ArrayRef<llvm::StringRef> harmless);

} // namespace heddle

#endif // HEDDLE_LIB_IMPORT_FAMILIES_H
