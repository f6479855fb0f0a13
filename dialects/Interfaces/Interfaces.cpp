//===- Interfaces.cpp - The op interfaces of Heddle -----------------------===//

#include "dialects/Interfaces/Interfaces.h"

#include "dialects/Interfaces/ShardingRuleOpInterface.cpp.inc"

#include "dialects/Interfaces/DifferentiableOpInterface.cpp.inc"

#include "dialects/Interfaces/WorkOpInterface.cpp.inc"

#include "dialects/Interfaces/PrecisionOpInterface.cpp.inc"
