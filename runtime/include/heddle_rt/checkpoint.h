//===- checkpoint.h - Training state and weights on disk --------*- C++ -*-===//
//
// Two formats. Both are safetensors of whole (global, unpadded) tensors, so
// neither depends on the plan or on the number of devices:
//  - a checkpoint has all data that a run needs to continue with the same bits:
//    a folder with `state.json` and every variable under its own name and
//    shape, with a checksum. The sums within a step (gradients and the loss)
//    are left out. Each process of a job writes the parts that it owns to a
//    file of its own, and `parts.json` lists the parts;
//  - weights are the parameters under the names and shapes of the model's own
//    checkpoint format (Hugging Face's).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_CHECKPOINT_H
#define HEDDLE_RT_CHECKPOINT_H

#include "heddle_rt/session.h"
#include "heddle_rt/status.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace heddle::runtime {

/// `state.json`: the step of a run, and the settings that choose its data.
struct TrainingState {
  int64_t step = 0; ///< completed steps
  uint64_t seed = 0;
  std::string data;       ///< path of the token file, for people
  int64_t dataTokens = 0; ///< size of the token file
  /// Checksum of parts of the token file, or of the names and sizes of the files
  /// in a folder of batches; nullopt if the checkpoint does not say.
  std::optional<uint64_t> files;
  int64_t rowsPerStep = 0;    ///< windows drawn each step
  int64_t sequence = 0;       ///< tokens of a window
  double heldOutFraction = 0; ///< fraction of the tokens
  std::optional<double> loss; ///< of the last step, if one was run
  /// Session::fingerprint() of the program that wrote the checkpoint; nullopt
  /// if the checkpoint does not say.
  std::optional<uint64_t> program;
};

/// Writes the session's variables and `state` to the folder `directory`. An
/// older folder of that name is replaced whole or not at all. In a job, all
/// processes call this, and all see the folder.
Status saveCheckpoint(const Session &session, const TrainingState &state,
                      const std::filesystem::path &directory);

/// Reads `state.json` alone.
Expected<TrainingState> readState(const std::filesystem::path &directory);

/// Returns an error if a file of a checkpoint is missing or damaged. Reads all
/// of it.
Status verifyCheckpoint(const std::filesystem::path &directory);

/// A part of a whole tensor in a checkpoint that several processes wrote.
struct CheckpointPart {
  std::string file, tensor;
  std::vector<int64_t> start, shape;
  std::string checksum;
};

/// Returns what each file of such a checkpoint should hold.
Expected<std::vector<CheckpointPart>>
readCheckpointParts(const std::filesystem::path &directory);

/// What a session does with a checkpoint.
enum class CheckpointUse {
  Train,    ///< trains on: model and optimizer are those of the checkpoint
  Evaluate, ///< reads the model: the optimizer may be another one
};

/// Fills the session's variables; the sums within a step become zero. If the
/// session or the checkpoint lacks a variable of the other, or a type or shape
/// differs, returns an error and changes no variable. If a checksum differs,
/// returns an error.
Status loadCheckpoint(Session &session, const std::filesystem::path &directory,
                      CheckpointUse use = CheckpointUse::Train);

/// Returns the checkpoints in a run's folder (`step-00000042`), oldest first.
std::vector<std::filesystem::path>
listCheckpoints(const std::filesystem::path &folder);
/// Returns the folder of the checkpoint after `step` steps.
std::filesystem::path checkpointPath(const std::filesystem::path &folder,
                                     int64_t step);
/// Removes all but the newest `keep` checkpoints, and the unfinished folders of
/// writers that were interrupted.
void pruneCheckpoints(const std::filesystem::path &folder, int64_t keep);

/// The right to write to a run's folder, which one process has at a time. The
/// system takes it back when the process ends, however it does.
class RunLock {
public:
  /// Takes the lock of a folder, and removes the unfinished checkpoints and
  /// artifacts of a run that was killed. An error names the process that has
  /// the lock.
  static Expected<RunLock> take(const std::filesystem::path &folder);
  /// Fails with a message that names the process that has the folder, if any.
  static Status checkFree(const std::filesystem::path &folder);
  RunLock(RunLock &&other) noexcept
      : descriptor(std::exchange(other.descriptor, -1)) {}
  RunLock &operator=(RunLock &&other) noexcept {
    std::swap(descriptor, other.descriptor);
    return *this;
  }
  ~RunLock();

private:
  RunLock() = default;
  int descriptor = -1;
};

/// Fills the parameters from a weights file or folder. Names in the file may
/// lack their first component ("transformer.", "model."), as in files of models
/// without a head. f16, bf16 and f64 are converted.
Status loadWeights(Session &session, const std::filesystem::path &path);

/// Writes `model.safetensors` (or shards and their index). Unless `config` is
/// empty, also writes it as `config.json`.
Status exportWeights(const Session &session,
                     const std::filesystem::path &directory,
                     const std::string &config);

} // namespace heddle::runtime

#endif // HEDDLE_RT_CHECKPOINT_H
