//===- Families.h - The families of models that can be imported -*- C++ -*-===//

#ifndef HEDDLE_LIB_IMPORT_FAMILIES_H
#define HEDDLE_LIB_IMPORT_FAMILIES_H

#include "Config.h"

#include "heddle/Import/Import.h"

namespace heddle {

/// Each function imports a config from which only `model_type` was read. It
/// fails if a key is not accounted for.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importGpt2(mlir::MLIRContext &context, Config &config,
           const ImportOptions &options);
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importLlama(mlir::MLIRContext &context, Config &config,
            const ImportOptions &options);

/// Accounts for the keys that all families have and that do not change the
/// computation: where files came from, how text is generated, heads for other
/// tasks, and how other programs run the model.
void ignoreCommonKeys(Config &config);

/// Checks `architectures`, if present. It must name one of the `supported`
/// classes, which have a head for language modelling, or the `base` class,
/// which gets such a head as in transformers' AutoModelForCausalLM.
void checkArchitectures(Config &config,
                        llvm::ArrayRef<llvm::StringRef> supported,
                        llvm::StringRef base);

/// Returns the number of layers to import: that of the config, but at most that
/// of the options.
int64_t chooseLayers(Config &config, const ImportOptions &options,
                     Config::Keys keys);

/// Returns the number of tokens in a row: that of the options, else `most`, but
/// at most 1024.
int64_t chooseSequence(const ImportOptions &options, int64_t most);

/// Compares the names and shapes of a folder's weights with the parameters of a
/// module. Reports all tensors that are missing, surplus or of another shape.
/// Names in the file may lack the base model's `prefix`. Tensors whose names
/// end in one of `harmless` may be surplus.
mlir::LogicalResult checkWeights(mlir::ModuleOp module,
                                 llvm::StringRef directory,
                                 llvm::StringRef prefix,
                                 llvm::ArrayRef<llvm::StringRef> harmless);

} // namespace heddle

#endif // HEDDLE_LIB_IMPORT_FAMILIES_H
