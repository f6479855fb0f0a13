//===- GpuEmitter.h - Writes a kernel for the threads of a GPU --*- C++ -*-===//
//
// Turns a KernelPlan into an llvm.func that every thread of a GPU runs.
//
// A *team* is the threads that share a row: one thread, a warp, or all threads
// of a block. It runs one block of rows of the plan, row by row. The threads of
// a team share the iterations of each nest; all of them compute the scalars of
// a row. Example: layer normalization of x : [8192, 768] in f32. A team is a
// warp; lane l reads the elements 4 l to 4 l + 3, then 128 + 4 l and so on. The
// sum of a row is added within each lane, then by shuffles.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_LOWER_LOWERKERNELSTOGPU_GPUEMITTER_H
#define HEDDLE_LIB_LOWER_LOWERKERNELSTOGPU_GPUEMITTER_H

#include "../LowerKernels/BodyEmitter.h"

namespace heddle::lower {

constexpr int64_t kWarp = 32;

/// The threads that share a row.
enum class GpuRows {
  Auto,   ///< as many as the row's length suggests
  Thread, ///< one thread
  Warp,   ///< 32 threads
  Block   ///< all threads of a block, at least 64
};

/// How the threads of a team share the iterations of a nest.
enum class Sharing {
  Elements, ///< all loops as one; each thread takes adjacent elements
  Outer,    ///< kept loops to warps, reduced loops to lanes
  Columns,  ///< kept loops to threads; each runs all reduced loops
  Repeated  ///< every thread runs all iterations
};

/// A nest as the threads of a team run it.
struct SharedNest {
  const Nest *nest;
  JoinedLoops loops;
  Sharing sharing = Sharing::Elements;
  /// The number of joined loops before the border between kept and reduced
  /// loops. With Outer, these are the kept loops; with Columns, the reduced
  /// loops.
  size_t border = 0;
  int64_t width = 1; ///< adjacent elements of one iteration of a thread
  int64_t group = 1; ///< Outer: the threads that share a kept iteration
  /// Columns: the threads that share the sums of a column, if above 1. Each
  /// thread then has one column, or one of `width`.
  int64_t parts = 1;
  bool combines = true; ///< threads may share each sum of the nest

  SharedNest(const KernelPlan &plan, const Nest &nest)
      : nest(&nest), loops(plan, nest) {}
  bool isScalar() const { return nest->loops.empty(); }
  /// Returns the product of the joined loops [begin, end).
  int64_t count(size_t begin, size_t end) const;
  int64_t count() const { return count(0, loops.extents.size()); }
  /// Columns: the iterations that threads share, each of `width` columns.
  int64_t countColumns() const {
    return count(border, loops.extents.size()) / width;
  }
};

/// Where the threads of a team must wait for each other.
struct Barriers {
  /// By nest, in front of it. In a nest of scalars, also between its loads and
  /// its stores.
  llvm::SmallVector<bool> before, inside;
};

/// The layout of a kernel on a GPU: teams, and the places of scratch values.
class GpuLayout {
public:
  GpuLayout(const KernelPlan &plan, GpuRows rows,
            llvm::ArrayRef<int64_t> alignments);

  /// Returns the alignment of the first element of a tensor, in bytes.
  int64_t getAlignment(mlir::Value value) const;
  /// Returns the number of adjacent elements that one access of a nest of width
  /// `width` may take; 1 if they are not adjacent or not aligned.
  int64_t getPiece(const Access &access, llvm::ArrayRef<int64_t> joined,
                   int64_t width) const;

  /// Returns whether the nest stores the statement's results. Other nests may
  /// only compute them again.
  bool isHome(unsigned statement, const SharedNest &shared) const {
    return &nests[plan.getHome(statement)] == &shared;
  }

  int64_t threads() const { return team * teamsInBlock; }
  /// Returns whether a block may have any number of threads without a change of
  /// the results, because each element is computed by one thread.
  bool isFlexible() const;
  /// True if a block should have all registers of a multiprocessor.
  bool needsManyRegisters = false;
  /// Sets the number of threads of a block, a multiple of a warp. The layout
  /// must be flexible.
  void setThreads(int64_t count);

  /// Returns the number of a nest's iterations that one thread runs. Each
  /// iteration has `width` elements.
  int64_t countOfThread(const SharedNest &shared) const;

  //===--------------------------------------------------------------------===//
  // Registers (Registers.cpp)
  //===--------------------------------------------------------------------===//

  /// Longer loops of a thread are not unrolled.
  static constexpr int64_t kMostUnrolled = 8;
  /// Returns the length up to which the loops of a nest are unrolled.
  int64_t getMostUnrolled(const SharedNest &shared) const;
  /// Estimates the registers of a thread.
  int64_t countRegisters() const;
  /// Returns the number of blocks for which a multiprocessor has registers.
  int64_t countBlocksAtOnce() const;

  std::vector<SharedNest> nests; ///< in order of execution
  int64_t team = 1;              ///< threads
  int64_t teamsInBlock = 1;
  int64_t blocks = 1; ///< of threads
  /// Scratch values of which every thread reads only the elements that it
  /// wrote.
  llvm::DenseSet<mlir::Value> own;
  Barriers barriers;

private:
  /// The registers of a nest, estimated.
  struct Registers {
    int64_t ofIteration = 0; ///< for the loads of an iteration
    int64_t fixed = 0;       ///< for sums and addresses
    bool isKeeper = false;   ///< uses values that a thread keeps
  };
  Registers countRegisters(const SharedNest &shared) const;
  /// Returns the registers of values that a thread keeps from nest to nest, or
  /// from row to row.
  int64_t countKept() const;
  /// Returns the registers that a thread may have.
  int64_t getMostRegisters() const;

  void chooseSharing(SharedNest &shared);
  void chooseWidths();
  /// `most`: threads of a block that is one team.
  void chooseTeam(GpuRows rows, int64_t most);
  void findOwn();
  void placeBarriers();

  const KernelPlan &plan;
  llvm::DenseMap<mlir::Value, int64_t> alignments;
};

/// A reduction whose partial results can be combined.
struct Combiner {
  mlir::Operation *op = nullptr; ///< arith.addf, arith.maximumf, ...
  mlir::TypedAttr identity;      ///< of the compute type
};

/// Returns the op by which a reduction's result combines with each element.
/// Null if that op cannot combine partial results.
Combiner getCombiner(const Statement &statement, unsigned result);

class GpuEmitter : BodyEmitter {
public:
  /// `alignments` are those of the kernel's operands and results, in bytes.
  GpuEmitter(const KernelPlan &plan, mlir::Location loc,
             mlir::OpBuilder &builder, GpuRows rows,
             llvm::ArrayRef<int64_t> alignments);

  /// Where a kernel's code stands in a function.
  struct Place {
    mlir::LLVM::LLVMFuncOp function;
    mlir::Block *entry = nullptr; ///< of the function
    mlir::Block *start = nullptr; ///< the code is appended to it
    mlir::Value block; ///< the block's number among the blocks of all copies
    mlir::Value table; ///< the copies' parameters; null: the function has them
    int64_t copies = 1;
    std::string sharedName; ///< of the function's shared memory
  };
  /// Emits the code, which ends with the function's return.
  mlir::LogicalResult emit(const Place &to);

  GpuLayout &getLayout() { return layout; }
  size_t countParameters() const {
    return plan.kernel.getNumArguments() + plan.kernel.getNumResults();
  }
  /// The shared memory that the emitted code uses.
  int64_t getSharedBytes() const { return sharedBytes; }

private:
  struct NestState;
  using Carried = llvm::SmallVector<mlir::Value>;

  //===--------------------------------------------------------------------===//
  // The code of a kernel (GpuEmitter.cpp)
  //===--------------------------------------------------------------------===//

  mlir::LogicalResult emitEntry();
  /// Returns the parameter of this block's copy.
  mlir::Value getParameter(unsigned number, mlir::Type type);
  void emitRow(mlir::Value index);
  void emitScalars(const SharedNest &nest, bool barrierInside);
  void barrier();
  mlir::Value i32(int64_t value);
  /// Runs `body` in the threads for which `condition` holds; the other threads
  /// keep `init`. A null condition holds for all.
  Carried when(mlir::Value condition, mlir::ValueRange init,
               llvm::function_ref<Carried()> body);
  mlir::Value isFirstOfTeam();

  //===--------------------------------------------------------------------===//
  // One nest (SharedNestEmitter.cpp)
  //===--------------------------------------------------------------------===//

  void emitNest(const SharedNest &shared, bool barrierInside);
  /// Runs `body(index, counter, carried)` for `first`, `first + step` and so on
  /// below `count`. `step` is the number of threads that share the indices.
  /// `counter` counts the iterations of this thread. In column mode an index
  /// stands for `width` elements of the chunk, if `inChunk` is true. A loop of
  /// at most `mostUnrolled` iterations is unrolled.
  Carried
  strided(mlir::Value first, int64_t step, int64_t count, mlir::ValueRange init,
          bool inChunk, int64_t width, int64_t mostUnrolled,
          llvm::function_ref<Carried(mlir::Value index, mlir::Value counter,
                                     mlir::ValueRange carried)>
              body);
  /// Runs all iterations of this thread. Calls `finish` with the sums of a nest
  /// (Elements, Repeated), or of each kept iteration.
  void iterate(NestState &state,
               llvm::function_ref<void(mlir::Value counter)> body,
               llvm::function_ref<void(mlir::ValueRange sums)> finish);
  /// Sets the indices of the joined loops [begin, end) from a linear index.
  void delinearize(NestState &state, mlir::Value index, size_t begin,
                   size_t end);
  void describeReads(NestState &state);
  void emitIteration(NestState &state, mlir::Value counter);
  llvm::SmallVector<mlir::Value> load(NestState &state, const Access &access,
                                      const Location &location);
  void store(NestState &state, const Access &access, const Location &location,
             llvm::ArrayRef<mlir::Value> values);
  mlir::Value offsetOf(NestState &state, const Location &location,
                       int64_t lane);
  /// Returns the address of an element that only this thread uses.
  mlir::Value ownAddress(NestState &state, mlir::Value memory,
                         const ElementType &type, mlir::Value counter,
                         int64_t lane);
  void finishRowSums(NestState &state, mlir::ValueRange sums,
                     bool barrierInside);
  void finishKeptSums(NestState &state, mlir::ValueRange sums);
  /// Runs the iterations of a column that several threads share.
  void iterateParts(NestState &state,
                    llvm::function_ref<void(mlir::Value counter)> body);

  //===--------------------------------------------------------------------===//
  // Sums of heddle.reduce_blocks, which each thread keeps over its rows
  // (BlockSums.cpp)
  //===--------------------------------------------------------------------===//

  static ElementType sumType(ReduceBlocksOp op);
  const SharedNest &homeOf(const Statement &statement) const;
  void startBlockSums();
  void storeBlockSums();

  //===--------------------------------------------------------------------===//
  // Sums across threads (Combine.cpp)
  //===--------------------------------------------------------------------===//

  mlir::Value shuffle(mlir::Value value, int64_t distance);
  mlir::Value combine(const Combiner &combiner, mlir::Value left,
                      mlir::Value right);
  /// Combines a value of every lane of a warp, in a fixed order. All lanes get
  /// the result.
  mlir::Value combineWarp(const Combiner &combiner, mlir::Value value);
  /// Combines values of every thread of a team, in a fixed order. All threads
  /// get the results.
  Carried combineTeam(llvm::ArrayRef<Combiner> combiners,
                      mlir::ValueRange values);

  mlir::Value emitMath(mlir::Operation *op, mlir::ValueRange operands) override;

  /// Returns the address of `bytes` bytes of the shared memory, which no other
  /// value uses.
  mlir::Value shareBytes(int64_t bytes);

  GpuLayout layout;
  Place place;
  mlir::Value table; ///< address of the parameters of this block's copy
  int64_t sharedBytes = 0;
  mlir::Value lane, warp; ///< of the team
  mlir::Value teamInBlock;
  mlir::Value laneOfWarp;
  /// The memory of `own` values: each thread uses only its own elements.
  llvm::DenseMap<mlir::Value, mlir::Value> owned;
  llvm::DenseMap<mlir::Value, mlir::Value> blockSums;
};

/// One kernel of a launch that may run several.
struct GpuPart {
  const KernelPlan *plan;
  llvm::ArrayRef<int64_t> alignments; ///< as for a GpuEmitter
  int64_t copies;
};

/// Builds a function, next to the first kernel, whose blocks run all copies of
/// all parts. If there is more than one copy, the function's parameter is a
/// table. Every block has as many threads as the largest part; smaller parts
/// must be flexible.
mlir::FailureOr<mlir::LLVM::LLVMFuncOp>
emitGpuFunction(mlir::OpBuilder &builder, llvm::StringRef name,
                llvm::ArrayRef<GpuPart> parts, GpuRows rows);

/// Expands a function of the math dialect that NVPTX has no instructions for.
/// Returns null if the op can stay as it is or has no expansion.
mlir::Value expandForGpu(LoopBuilder &b, mlir::Operation *op,
                         mlir::ValueRange operands);

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_LOWERKERNELSTOGPU_GPUEMITTER_H
