//===- StreamOrderTest.cpp - Random calls on streams ----------------------===//
//
// Checks on random programs that heddle-verify-executable accepts a program if
// and only if every pair of conflicting calls is ordered. The reference
// follows, for each pair, all paths through stream order and events.
//
//===----------------------------------------------------------------------===//

#include "heddle/Lower/Passes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"
#include <random>

using namespace mlir;
using namespace heddle;

namespace {

/// A random program of copies on streams, with the reference's answer.
class RandomCalls {
public:
  explicit RandomCalls(unsigned seed) : random(seed) {
    // The program's start and end count as calls of stream 0 on all bytes.
    addCall(0, {0, kBytes}, {0, kBytes});
    for (int stream = 1; stream < kStreams; ++stream)
      if (pick(20) > 0)
        addOrder(0, stream);
    for (int left = 2 + pick(10); left > 0; --left) {
      if (pick(3) > 0)
        addOrder(pick(kStreams), pick(kStreams));
      addCopy();
    }
    for (int stream = 1; stream < kStreams; ++stream)
      if (pick(20) > 0)
        addOrder(stream, 0);
    addCall(0, {0, kBytes}, {0, kBytes});
  }

  std::string getText() const {
    return "rt.program @p arena(" + std::to_string(kBytes) + ") streams(" +
           std::to_string(kStreams) + ") {\n" + text + "}\n";
  }

  bool isOrdered() const {
    for (size_t j = 0; j < calls.size(); ++j)
      for (size_t i = 0; i < j; ++i)
        if (conflict(calls[i], calls[j]) &&
            !reaches(calls[i].node, calls[j].node))
          return false;
    return true;
  }

private:
  static constexpr int kStreams = 3, kBytes = 48;
  struct Bytes {
    int begin, end;
    bool meets(Bytes other) const {
      return begin < other.end && other.begin < end;
    }
  };
  struct Call {
    int node;
    Bytes read, written;
  };

  int pick(int below) { return random() % below; }

  /// Adds a point to a stream, behind its last point, and returns its number.
  int addNode(int stream) {
    after.emplace_back();
    if (last[stream] >= 0)
      after[last[stream]].push_back(after.size() - 1);
    return last[stream] = after.size() - 1;
  }
  void addCall(int stream, Bytes read, Bytes written) {
    calls.push_back({addNode(stream), read, written});
  }
  void addOrder(int from, int to) {
    int record = addNode(from), wait = addNode(to);
    after[record].push_back(wait);
    std::string event = std::to_string(events++);
    text += "  rt.record " + event + " stream(" + std::to_string(from) + ")\n";
    text += "  rt.wait " + event + " stream(" + std::to_string(to) + ")\n";
  }
  void addCopy() {
    int stream = pick(kStreams), size = 1 + pick(3);
    auto place = [&] {
      int begin = 4 * pick(kBytes / 4 - size + 1);
      return Bytes{begin, begin + 4 * size};
    };
    Bytes read = place(), written = place();
    addCall(stream, read, written);
    auto print = [&](Bytes bytes) {
      return "arena[" + std::to_string(bytes.begin) + " : " +
             std::to_string(size) + "xf32]";
    };
    text += "  rt.copy stream(" + std::to_string(stream) + ") " + print(read) +
            " -> " + print(written) + " serves <activation [\"a\"]>\n";
  }

  static bool conflict(const Call &a, const Call &b) {
    return a.written.meets(b.written) || a.written.meets(b.read) ||
           a.read.meets(b.written);
  }
  bool reaches(int from, int to) const {
    return from == to || llvm::any_of(after[from], [&](int next) {
             return reaches(next, to);
           });
  }

  std::mt19937 random;
  std::vector<std::vector<int>>
      after; ///< for each point, the points right after it
  int last[kStreams] = {-1, -1, -1};
  int events = 0;
  std::vector<Call> calls;
  std::string text;
};

TEST(StreamOrder, SaysWhatAllPathsSay) {
  MLIRContext context;
  context.loadDialect<HeddleDialect, rt::RtDialect>();
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) {});
  int ordered = 0, count = 3000;
  for (int seed = 1; seed <= count; ++seed) {
    RandomCalls calls(seed);
    std::string text = calls.getText();
    auto module = parseSourceString<ModuleOp>(text, ParserConfig(&context));
    ASSERT_TRUE(module) << text;
    PassManager passes(&context);
    passes.addPass(createVerifyExecutablePass());
    ASSERT_EQ(succeeded(passes.run(*module)), calls.isOrdered())
        << "seed " << seed << "\n"
        << text;
    ordered += calls.isOrdered();
  }
  // Neither answer is rare.
  EXPECT_GT(ordered, count / 20);
  EXPECT_LT(ordered, count - count / 20);
}

} // namespace
