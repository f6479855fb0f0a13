//===- TestTables.h - Tables of the hand-written programs -------*- C++ -*-===//
//
// Manifests of Artifact/program.c on a mesh of pp = 2, as JSON, and the
// functions that build their parts.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_RUNTIME_TESTTABLES_H
#define HEDDLE_TEST_RUNTIME_TESTTABLES_H

#include <nlohmann/json.hpp>

#include <array>
#include <string_view>

namespace heddle::runtime {

/// An array. Braces around one Json would copy it.
template <typename... Items> nlohmann::json list(Items &&...items) {
  nlohmann::json array = nlohmann::json::array();
  (array.push_back(items), ...);
  return array;
}

nlohmann::json tensor(const char *name, const char *type, nlohmann::json shape,
                      int ranks);

/// A call of a program, and one end of a transfer: `kind` is "send" or
/// "receive".
nlohmann::json call(const char *program, int microBatch,
                    nlohmann::json arguments, nlohmann::json results,
                    nlohmann::json after = nlohmann::json::array());
nlohmann::json transfer(const char *kind, int slot, int peer, int stream,
                        nlohmann::json after = nlohmann::json::array());

/// Operands of calls.
inline nlohmann::json input(int i) { return {{"input", i}}; }
inline nlohmann::json output(int i) { return {{"output", i}}; }
inline nlohmann::json slot(int i) { return {{"slot", i}}; }

/// The micro-batches of a step of the manifests with two stages.
constexpr int microBatches = 4;

/// Two stages: y = w0 x on stage 0 and z = w1 y on stage 1. Stage 0 sends all
/// micro-batches forward, and then receives all gradients. Stage 1 has a slot
/// for each y, and one for all gradients of y; stage 0 has one for each
/// direction. The tables `tens` and `thousands` multiply the numbers of
/// micro-batches by 10 and 1000.
nlohmann::json pipelineManifest();

/// The two stages under 1F1B. Each stage has two slots for y and two for its
/// gradient, which micro-batches use in turn. Activations go forward on stream
/// 1 while gradients come back on stream 2.
nlohmann::json interleavedManifest();

/// Each of two ranks computes y = w x, gives y to the other and computes w y of
/// the other's y. Entry 0 is the first call. `order` has the others, each once:
/// the send, the receive, the second call. Rank r sends on stream streams[r].
nlohmann::json exchangeManifest(std::string_view order,
                                std::array<int, 2> streams);

} // namespace heddle::runtime

#endif // HEDDLE_TEST_RUNTIME_TESTTABLES_H
