//===- CallKey.cpp - Keys of calls that take equally long -----------------===//

#include "heddle/Profile/CallKey.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/xxhash.h"
#include <set>

using namespace mlir;
using namespace heddle;

/// Attributes that do not change how long a call takes.
static bool isIrrelevant(StringRef name) {
  static const std::set<StringRef> names = {
      "stream",  "serves",      "kernel",   "seed",
      "op_name", "operands_",   "results_", "operandSegmentSizes",
      "mesh",    "global_shape"};
  return names.count(name);
}

static void printShape(llvm::raw_ostream &out, RankedTensorType type) {
  for (int64_t size : type.getShape())
    out << size << 'x';
  out << type.getElementType();
}

std::string CallKeys::getKernel(rt::LaunchOp launch) {
  auto [entry, isNew] = kernels.try_emplace(launch.getKernelAttr().getAttr());
  if (!isNew)
    return entry->second;
  std::string text;
  llvm::raw_string_ostream out(text);
  if (Operation *kernel = symbols.lookup(launch.getKernelAttr().getAttr())) {
    OpPrintingFlags flags;
    kernel->print(out, flags.elideLargeElementsAttrs(64).useLocalScope());
    // The name of a kernel is only its number in the program, so it is not part
    // of the key.
    std::string name = ("@" + launch.getKernel() + "(").str();
    if (size_t at = text.find(name); at != std::string::npos)
      text.erase(at, name.size());
  }
  std::string key;
  llvm::raw_string_ostream(key)
      << llvm::format("%016llx", static_cast<unsigned long long>(
                                     llvm::xxh3_64bits(StringRef(text))));
  for (auto result : launch.getResults_().getAsRange<rt::BufferAttr>()) {
    llvm::raw_string_ostream stream(key);
    stream << ' ';
    printShape(stream, result.getType());
  }
  return entry->second = key;
}

std::string CallKeys::getForm(StringRef key) {
  std::string form;
  while (!key.empty()) {
    StringRef number = key.take_while(llvm::isDigit);
    key = key.drop_front(number.size());
    if (!number.empty())
      form += number == "1" ? "1" : "#";
    StringRef other = key.take_until(llvm::isDigit);
    key = key.drop_front(other.size());
    form += other;
  }
  return form;
}

const std::string &CallKeys::get(rt::DeviceCallOpInterface call) {
  auto [entry, isNew] = known.try_emplace(call);
  if (!isNew)
    return entry->second;
  std::string key;
  llvm::raw_string_ostream out(key);
  out << call->getName().stripDialect();
  if (auto launch = dyn_cast<rt::LaunchOp>(call.getOperation()))
    out << ' ' << getKernel(launch);
  for (NamedAttribute attribute : call->getAttrs()) {
    StringRef name = attribute.getName();
    if (isIrrelevant(name))
      continue;
    out << ' ' << name;
    if (isa<UnitAttr>(attribute.getValue()))
      continue;
    out << '=';
    if (auto buffer = dyn_cast<rt::BufferAttr>(attribute.getValue()))
      printShape(out, buffer.getType());
    else if (auto number = dyn_cast<IntegerAttr>(attribute.getValue()))
      out << number.getValue();
    else
      out << attribute.getValue();
  }
  return known[call] = key;
}
