// The precompiled header of all code without MLIR. It includes the headers that
// many files include and that take long to parse. A source file still includes
// the headers that it uses. CLI11 is not here: every user of this header would
// compile its inline functions.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>
