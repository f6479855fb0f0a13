//===- CheckWeights.cpp - Compare a folder's weights with a model ---------===//

#include "Families.h"

#include "dialects/Heddle/Heddle.h"
#include "heddle_rt/safetensors.h"

using namespace mlir;
using namespace heddle;

static llvm::StringRef stringRef(std::string_view text) {
  return {text.data(), text.size()};
}

/// Returns a list such as "'a', 'b', 'c', 'd' and 7 more".
static std::string list(ArrayRef<std::string> names) {
  constexpr size_t most = 4;
  std::string text;
  for (const std::string &name : names.take_front(most))
    text += (text.empty() ? "'" : ", '") + name + "'";
  if (names.size() > most)
    text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

LogicalResult heddle::checkWeights(ModuleOp module, StringRef directory,
                                   StringRef prefix,
                                   ArrayRef<StringRef> harmless) {
  Location unknown = UnknownLoc::get(module.getContext());
  auto reader = runtime::safetensors::Reader::open(directory.str());
  if (!reader.ok()) // names the file
    return emitError(unknown) << stringRef(reader.message());
  auto error = [&]() {
    return emitError(unknown) << "'" << directory << "': ";
  };

  llvm::StringSet<> used;
  std::vector<std::string> missing;
  bool wrong = false;
  for (VariableOp variable : module.getOps<VariableOp>()) {
    CheckpointAttr checkpoint = variable.getCheckpointAttr();
    if (!checkpoint)
      continue;
    StringRef name = checkpoint.getName().getValue();
    const runtime::safetensors::Tensor *tensor = reader->find(name.str());
    if (!tensor && name.consume_front(prefix))
      tensor = reader->find(name.str());
    if (!tensor) {
      missing.push_back(checkpoint.getName().str());
      continue;
    }
    used.insert(name);
    if (ArrayRef<int64_t>(tensor->shape) != checkpoint.getShape()) {
      wrong = true;
      error() << "tensor '" << name << "': expected shape "
              << runtime::safetensors::shapeToString(checkpoint.getShape())
              << " as the config says, got "
              << runtime::safetensors::shapeToString(tensor->shape);
    }
    if (!runtime::safetensors::isFloat(tensor->dtype)) {
      wrong = true;
      error() << "tensor '" << name << "': expected F32, F16, BF16 or F64, got "
              << stringRef(runtime::safetensors::name(tensor->dtype));
    }
  }

  std::vector<std::string> surplus;
  for (const runtime::safetensors::Tensor &tensor : reader->tensors())
    if (!used.contains(tensor.name) &&
        llvm::none_of(harmless, [&](StringRef ending) {
          return StringRef(tensor.name).ends_with(ending);
        }))
      surplus.push_back(tensor.name);

  if (!missing.empty()) {
    wrong = true;
    error() << "the weights lack tensors that the config asks for: "
            << list(missing);
  }
  if (!surplus.empty()) {
    wrong = true;
    error() << "the weights have tensors that the config has no place for: "
            << list(surplus);
  }
  return failure(wrong);
}
