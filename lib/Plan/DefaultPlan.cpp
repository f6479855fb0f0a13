//===- DefaultPlan.cpp - Standard plans from a mesh -----------------------===//

#include "heddle/Plan/DefaultPlan.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Stages/StageSchedule.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"
#include <functional>
#include <map>
#include <numeric>
#include <set>

using namespace mlir;
using namespace heddle;

/// Returns the glob for all layers: "h.3.ln_1.weight" -> "h.*.ln_1.weight".
static std::string withoutNumbers(StringRef name) {
  SmallVector<StringRef> parts;
  name.split(parts, '.');
  std::string pattern;
  for (StringRef part : parts) {
    if (!pattern.empty())
      pattern += '.';
    bool isNumber = !part.empty() && llvm::all_of(part, llvm::isDigit);
    pattern += isNumber ? "*" : part.str();
  }
  return pattern;
}

namespace {

/// The roles of factors that tensor parallelism splits.
static constexpr FactorRole kTensorRoles[] = {
    FactorRole::Features, FactorRole::Groups, FactorRole::Vocabulary};

/// The factors and variables that occur in the model's ops.
struct Model {
  /// The names of the factors of each role. Factors that cannot be split are
  /// left out.
  std::map<FactorRole, std::set<std::string>> names;
  /// For each variable, the dimensions that factors of kTensorRoles run over.
  llvm::StringMap<std::set<unsigned>> tensorDims;

  explicit Model(ModuleOp module) {
    module.walk([&](ShardingRuleOpInterface op) {
      if (getOpName(op).empty())
        return;
      ShardingRule rule = op.getShardingRule();
      for (const Factor &factor : rule.factors)
        if (!factor.name.empty() && factor.kind != FactorKind::Replicate)
          names[factor.role].insert(factor.name);
      for (OpOperand &operand : op->getOpOperands())
        noteVariable(rule, operand);
    });
  }

private:
  void noteVariable(const ShardingRule &rule, OpOperand &operand) {
    // A weight may be cast before its use. Skips ops that have one operand and
    // keep its shape.
    Operation *source = operand.get().getDefiningOp();
    while (source && !isa<LoadOp>(source) && source->getNumOperands() == 1 &&
           source->getOperand(0).getType().getTypeID() ==
               operand.get().getType().getTypeID() &&
           isa<RankedTensorType>(operand.get().getType()) &&
           cast<RankedTensorType>(source->getOperand(0).getType()).getShape() ==
               cast<RankedTensorType>(operand.get().getType()).getShape())
      source = source->getOperand(0).getDefiningOp();
    auto load = dyn_cast_or_null<LoadOp>(source);
    if (!load)
      return;
    if (operand.getOperandNumber() >= rule.operands.size())
      return; // a foreign rule that lacks this operand
    const TensorFactors &dims = rule.operands[operand.getOperandNumber()];
    for (auto [i, dim] : llvm::enumerate(dims))
      for (unsigned factor : dim)
        if (llvm::is_contained(kTensorRoles, rule.factors[factor].role))
          tensorDims[load.getVariable()].insert(i);
  }
};

} // namespace

/// Returns the dimension to store over `parts` devices; nullopt if every
/// dimension is too small. Prefers the outermost dimension: its parts are runs
/// of memory, so gathers and scatters need no packing. Tensor parallelism
/// splits `tensor` dimensions over `tensorParts` devices first.
static std::optional<unsigned> chooseDimension(RankedTensorType type,
                                               const std::set<unsigned> &tensor,
                                               int64_t tensorParts,
                                               int64_t parts) {
  // Parts that do not divide the size need padding, and do not nest in the
  // parts of tensor parallelism. Accepts 1/32 of padding without nesting.
  constexpr int64_t kLittlePadding = 32;
  auto isEven = [&](unsigned dim) {
    int64_t size = type.getDimSize(dim);
    bool isSplit = tensorParts > 1 && tensor.count(dim);
    if (size % (isSplit ? tensorParts * parts : parts) == 0)
      return true;
    int64_t padding = llvm::alignTo(size, parts) - size;
    return !isSplit && padding <= size / kLittlePadding;
  };
  std::optional<unsigned> best;
  auto rank = [&](unsigned dim) {
    int64_t size = type.getDimSize(dim);
    return isEven(dim) ? std::tuple(2, -int64_t(dim))
                       : std::tuple(int(!tensor.count(dim)), size);
  };
  for (unsigned dim = 0; dim < type.getRank(); ++dim)
    if (type.getDimSize(dim) >= parts && (!best || rank(dim) > rank(*best)))
      best = dim;
  return best;
}

static bool isStoredSharded(VariableRole role, unsigned zeroLevel) {
  switch (role) {
  case VariableRole::OptimizerState:
    return zeroLevel >= 1;
  case VariableRole::Gradient:
    return zeroLevel >= 2;
  case VariableRole::Parameter:
  case VariableRole::Buffer:
    return zeroLevel >= 3;
  case VariableRole::Counter:
  case VariableRole::Loss:
  case VariableRole::Setting:
    return false;
  }
  return false;
}

StringRef heddle::getContextName(ContextParallelism kind) {
  switch (kind) {
  case ContextParallelism::Gather:
    return "gather";
  case ContextParallelism::Ring:
    return "ring";
  case ContextParallelism::Heads:
    return "heads";
  }
  llvm_unreachable("unknown kind of context parallelism");
}

std::optional<ContextParallelism>
heddle::parseContextParallelism(StringRef text) {
  for (ContextParallelism kind : kContextKinds)
    if (text == getContextName(kind))
      return kind;
  return std::nullopt;
}

static int64_t getProduct(ArrayRef<int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1),
                         std::multiplies<>());
}

int64_t DefaultMesh::getDataSize() const { return getProduct(data); }

int64_t DefaultMesh::getTensorSize() const { return getProduct(tensor); }

int64_t DefaultMesh::getNumDevices() const {
  int64_t devices = std::min(pipeline, kMaxPlanDevices + 1);
  for (const std::vector<int64_t> *sizes : {&data, &tensor})
    for (int64_t size : *sizes) {
      if (size > kMaxPlanDevices / devices)
        return kMaxPlanDevices + 1;
      devices *= size;
    }
  return context > kMaxPlanDevices / devices ? kMaxPlanDevices + 1
                                             : devices * context;
}

llvm::Expected<DefaultMesh> heddle::parseDefaultMesh(StringRef text) {
  DefaultMesh mesh;
  llvm::StringSet<> given;
  SmallVector<StringRef> parts;
  text.split(parts, ',');
  for (StringRef part : parts) {
    auto [axis, numbers] = part.split('=');
    SmallVector<StringRef> sizes;
    numbers.split(sizes, 'x');
    std::vector<int64_t> list;
    bool isRight = axis == "dp" || axis == "tp" ||
                   ((axis == "cp" || axis == "pp") && sizes.size() == 1);
    for (StringRef size : sizes) {
      int64_t number = 0;
      isRight &= !size.getAsInteger(10, number) && number >= 1;
      list.push_back(number);
    }
    if (!isRight)
      return llvm::createStringError("expected pp=N,dp=N,cp=N,tp=N with "
                                     "positive numbers, or products such as "
                                     "dp=2x4, got '" +
                                     part + "'; other meshes need a plan");
    if (!given.insert(axis).second)
      return llvm::createStringError("expected each axis once, got '" + text +
                                     "'");
    mesh.statesData |= axis == "dp";
    mesh.statesContext |= axis == "cp";
    if (axis == "cp")
      mesh.context = list.front();
    else if (axis == "pp")
      mesh.pipeline = list.front();
    else
      (axis == "dp" ? mesh.data : mesh.tensor) = std::move(list);
  }
  return mesh;
}

/// Adds one entry for each name pattern of ops for which `assign` returns axes.
/// A pattern covers all layers.
static void addEntries(Plan &plan, ModuleOp module,
                       llvm::function_ref<std::vector<FactorAssignment>(
                           Operation *, const ShardingRule &)>
                           assign) {
  std::map<std::string, std::vector<FactorAssignment>> entries;
  module.walk([&](ShardingRuleOpInterface op) {
    if (getOpName(op).empty())
      return;
    std::vector<FactorAssignment> own = assign(op, op.getShardingRule());
    llvm::erase_if(own, [](const FactorAssignment &assignment) {
      return assignment.key.empty();
    });
    if (!own.empty())
      entries.try_emplace(withoutNumbers(getOpName(op)), std::move(own));
  });
  for (auto &[pattern, assignments] : entries)
    plan.operators.push_back({pattern, std::move(assignments), {}});
}

static std::vector<FactorAssignment>
assignRole(const ShardingRule &rule, FactorRole role,
           const std::vector<std::string> &axes) {
  std::optional<unsigned> factor = rule.getFactor(role);
  if (!factor)
    return {};
  return {{rule.factors[*factor].name, axes, {}}};
}

/// Adds entries for attention and norms. They need other axes for the sequence
/// than the entry for all operators gives.
static void addSequenceEntries(Plan &plan, ModuleOp module,
                               const DefaultMesh &mesh,
                               const std::vector<std::string> &context,
                               const std::vector<std::string> &tensor) {
  auto both = [](std::vector<std::string> major,
                 const std::vector<std::string> &minor) {
    major.insert(major.end(), minor.begin(), minor.end());
    return major;
  };
  if (!context.empty() && mesh.attention != ContextParallelism::Gather)
    addEntries(plan, module, [&](Operation *, const ShardingRule &rule) {
      std::vector<FactorAssignment> assignments;
      if (!rule.meet)
        return assignments;
      auto [queries, keys] = *rule.meet;
      if (mesh.attention == ContextParallelism::Ring)
        return std::vector<FactorAssignment>{
            {rule.factors[keys].name, context, {}}};
      assignments = assignRole(rule, FactorRole::Groups, both(tensor, context));
      assignments.push_back({rule.factors[queries].name, {}, {}});
      return assignments;
    });
  if (mesh.sequence)
    addEntries(plan, module, [&](Operation *op, const ShardingRule &rule) {
      return op->hasTrait<NormalizationOp>()
                 ? assignRole(rule, FactorRole::Sequence, both(context, tensor))
                 : std::vector<FactorAssignment>();
    });
}

static llvm::Error checkDefaultPlan(const DefaultMesh &mesh,
                                    int64_t zeroLevel) {
  const std::pair<StringRef, std::vector<int64_t>> axes[] = {
      {"dp", mesh.data},
      {"tp", mesh.tensor},
      {"cp", {mesh.context}},
      {"pp", {mesh.pipeline}}};
  for (const auto &[axis, sizes] : axes) {
    if (sizes.empty())
      return llvm::createStringError("expected a size of " + Twine(axis) +
                                     ", got none");
    for (int64_t size : sizes)
      if (size < 1)
        return llvm::createStringError("expected 1 or more devices along " +
                                       Twine(axis) + ", got " + Twine(size));
  }
  if (zeroLevel < 0 || zeroLevel > 3)
    return llvm::createStringError("expected a ZeRO level from 0 to 3, got " +
                                   Twine(zeroLevel));
  return llvm::Error::success();
}

/// Names the options of the command line that state the keys of the plan.
static void nameOptions(Plan &plan, const DefaultMesh &mesh) {
  if (mesh.option.empty())
    return;
  plan.options["mesh"] = plan.options["operators"] = mesh.option;
  plan.options["storage"] = "--zero";
  plan.options["stages"] = mesh.chunks > 0 ? "--chunks"
                           : mesh.schedule != PipelineSchedule::OneFOneB
                               ? "--pipeline"
                               : mesh.option;
}

llvm::Expected<Plan> heddle::makeDefaultPlan(ModuleOp module,
                                             const DefaultMesh &mesh,
                                             int64_t zeroLevel) {
  if (llvm::Error problem = checkDefaultPlan(mesh, zeroLevel))
    return std::move(problem);
  Model model(module);
  Plan plan;
  nameOptions(plan, mesh);
  if (mesh.pipeline > 1) {
    plan.addAxes(kPipelineAxis.str(), {mesh.pipeline});
    plan.numStages = mesh.pipeline * getNumChunks(mesh.schedule, mesh.chunks);
    plan.schedule = mesh.schedule;
    plan.pipelineBarrier = mesh.barrier;
  }
  std::vector<std::string> dataAxes = plan.addAxes("dp", mesh.data);
  std::vector<std::string> contextAxes;
  if (mesh.context > 1)
    contextAxes = plan.addAxes("cp", {mesh.context});
  std::vector<std::string> tensorAxes = plan.addAxes("tp", mesh.tensor);
  // If dp is a product, only its last axis splits storage.
  int64_t dataParallel = mesh.data.back();
  int64_t tensorParts = mesh.getTensorSize();
  FactorEntry all{"*", {}, {}};
  auto split = [&](FactorRole role, const std::vector<std::string> &axes) {
    if (!axes.empty())
      for (const std::string &name : model.names[role])
        all.assignments.push_back({name, axes, {}});
  };
  split(FactorRole::Batch, dataAxes);
  split(FactorRole::Sequence, contextAxes);
  for (FactorRole role : kTensorRoles)
    split(role, tensorAxes);
  if (!all.assignments.empty())
    plan.operators.push_back(all);
  addSequenceEntries(plan, module, mesh, contextAxes, tensorAxes);
  if (zeroLevel == 0 || dataParallel <= 1)
    return plan;

  // One entry covers all layers, unless their dimensions differ.
  std::map<std::string, std::map<std::string, unsigned>> byPattern;
  llvm::StringSet<> unstored; // patterns with a variable that is not sharded
  SmallVector<VariableOp> variables(module.getOps<VariableOp>());
  for (VariableOp variable : variables) {
    StringRef name = variable.getSymName();
    std::string pattern = withoutNumbers(name);
    std::optional<unsigned> dim;
    if (isStoredSharded(variable.getRole(), zeroLevel)) {
      // Tensor parallelism splits an optimizer's state like its parameter.
      StateAttr state = variable.getStateAttr();
      StringRef parameter = state ? state.getParameter().getValue() : name;
      dim = chooseDimension(variable.getTensorType(),
                            model.tensorDims.lookup(parameter), tensorParts,
                            dataParallel);
    }
    if (dim)
      byPattern[pattern][name.str()] = *dim;
    else
      unstored.insert(pattern);
  }
  auto add = [&](StringRef glob, unsigned dim) {
    plan.storage.push_back({glob.str(), {{dim, {dataAxes.back()}, {}}}, {}});
  };
  for (const auto &[pattern, dims] : byPattern) {
    bool alike = !unstored.contains(pattern) &&
                 llvm::all_of(dims, [&](const auto &entry) {
                   return entry.second == dims.begin()->second;
                 });
    // The pattern "adamw.m.h.*.weight" must not match a variable of another
    // pattern.
    for (VariableOp variable : variables)
      if (alike && matchesGlob(pattern, variable.getSymName()) &&
          withoutNumbers(variable.getSymName()) != pattern)
        alike = false;
    if (alike)
      add(pattern, dims.begin()->second);
    else
      for (const auto &[name, dim] : dims)
        add(name, dim);
  }
  return plan;
}
