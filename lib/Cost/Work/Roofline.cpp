//===- Roofline.cpp - Time of an op from its work -------------------------===//

#include "heddle/Cost/Roofline.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace heddle;

std::optional<double> heddle::getProductRate(Type elementType,
                                             const ClusterDevice &device) {
  std::string name;
  llvm::raw_string_ostream(name) << elementType;
  auto known = device.peak.find(name);
  if (known == device.peak.end())
    return std::nullopt;
  return known->second * device.efficiency.peak;
}

double heddle::getNearProductRate(Type elementType,
                                  const ClusterDevice &device) {
  for (Type type :
       {elementType, Type(Float32Type::get(elementType.getContext()))})
    if (std::optional<double> rate = getProductRate(type, device))
      return *rate;
  return device.peak.begin()->second * device.efficiency.peak;
}

double heddle::getRooflineSeconds(const Work &work, double rate,
                                  const ClusterDevice &device) {
  return device.launch + std::max(double(work.flops) / rate,
                                  double(work.bytesRead + work.bytesWritten) /
                                      device.getMemoryRate());
}
