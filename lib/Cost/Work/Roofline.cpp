//===- Roofline.cpp - Time of an op from its work -------------------------===//

#include "heddle/Cost/Roofline.h"
#include "mlir/IR/Types.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace heddle;

static double getPeak(Type elementType, const ClusterDevice &device) {
  std::string name;
  llvm::raw_string_ostream(name) << elementType;
  for (const std::string &known : {name, std::string("f32")})
    if (auto it = device.peak.find(known); it != device.peak.end())
      return it->second;
  double least = 0;
  for (const auto &[type, rate] : device.peak)
    least = least == 0 ? rate : std::min(least, rate);
  return least;
}

double heddle::getRooflineSeconds(const Work &work, Type elementType,
                                  const ClusterDevice &device) {
  double seconds = device.launch;
  if (double peak = getPeak(elementType, device); peak > 0)
    seconds = std::max(seconds, double(work.flops) / peak);
  if (device.memoryBandwidth > 0)
    seconds = std::max(seconds, double(work.bytesRead + work.bytesWritten) /
                                    device.memoryBandwidth);
  return seconds;
}
