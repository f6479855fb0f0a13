//===- CheckpointParts.h - Checkpoints that processes share -----*- C++ -*-===//
//
// In a job, each process writes the blocks of variables that it owns to a
// safetensors file of its own. For each tensor of such a file, `parts.json`
// states the part of a whole tensor that it holds, and a checksum:
//
//   {"version": 1, "files": [{"file": "part-00000.safetensors", "parts": [
//      {"tensor": "h.0.mlp.weight", "start": [0, 1536], "shape": [768, 1536],
//       "checksum": "9f0c..."}, ...]}, ...]}
//
// The i-th part is the tensor named "i" of its file. Any number of processes
// reads the parts that its ranks need.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_TRAINER_CHECKPOINTPARTS_H
#define HEDDLE_RT_TRAINER_CHECKPOINTPARTS_H

#include "heddle_rt/session.h"

#include <filesystem>
#include <string>

namespace heddle::runtime {

/// Returns 16 hexadecimal digits.
std::string checksumText(uint64_t checksum);

inline constexpr const char *partsFile = "parts.json";

/// Returns true if a checkpoint consists of parts.
bool hasParts(const std::filesystem::path &directory);

/// Writes the variables that this process owns. Every process of the session's
/// job calls this with the same folder, which exists. Returns the text of
/// `parts.json`, which one process must write.
Expected<std::string> writeParts(const Session &session,
                                 const std::filesystem::path &directory);

/// Fills the given tensors of the session's manifest (indices) and ignores the
/// others. An error names the variable or the file.
Status readParts(Session &session, const std::filesystem::path &directory,
                 const std::vector<size_t> &tensors);

/// Returns an error if a file is damaged or missing.
Status verifyParts(const std::filesystem::path &directory);

} // namespace heddle::runtime

#endif // HEDDLE_RT_TRAINER_CHECKPOINTPARTS_H
