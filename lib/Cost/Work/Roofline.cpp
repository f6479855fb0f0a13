//===- Roofline.cpp - Time of an op from its work -------------------------===//

#include "heddle/Cost/Roofline.h"
#include "mlir/IR/Types.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace heddle;

std::optional<double> heddle::getPeakRate(Type elementType,
                                          const ClusterDevice &device) {
  std::string name;
  llvm::raw_string_ostream(name) << elementType;
  auto known = device.peak.find(name);
  if (known == device.peak.end())
    return std::nullopt;
  return known->second;
}

double heddle::getRooflineSeconds(const Work &work, double peakRate,
                                  const ClusterDevice &device) {
  return device.launch + std::max(double(work.flops) / peakRate,
                                  double(work.bytesRead + work.bytesWritten) /
                                      device.memoryBandwidth);
}
