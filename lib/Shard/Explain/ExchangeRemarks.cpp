//===- ExchangeRemarks.cpp - Remarks on exchanges inside of ops -----------===//

#include "ExchangeRemarks.h"
#include "Alternative.h"
#include "heddle/Sharding/CollectiveCosts.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace heddle;

void heddle::addExchangeRemark(Operation *op,
                               llvm::iterator_range<Block::iterator> made,
                               MeshRef mesh, ReshardSequences &sequences,
                               CommunicationRemarks &remarks) {
  if (remarks.dropsAll())
    return;
  CollectiveCost cost;
  llvm::SetVector<StringAttr> axes;
  llvm::MapVector<std::pair<StringRef, AxisListAttr>, int64_t> counts;
  for (Operation &local : made)
    local.walk([&](Operation *collective) {
      AxisListAttr list = getCollectiveAxes(collective);
      if (!list)
        return;
      cost += getCollectiveCost(collective, mesh.mesh, sequences.getTopology());
      axes.insert(list.getAxes().begin(), list.getAxes().end());
      ++counts[{collective->getName().stripDialect(), list}];
    });
  if (counts.empty() || !remarks.isWanted(cost))
    return;
  std::string subject = describeOperator(op);
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (auto function = op->getParentOfType<func::FuncOp>())
    stream << "in @" << function.getName() << ", ";
  stream << subject << " needs of other devices what its own part lacks: ";
  llvm::interleaveComma(counts, stream, [&](const auto &entry) {
    stream << entry.second << " " << entry.first.first << " over "
           << describeAxes(entry.first.second.getAxes());
  });
  CommunicationRemark remark{op->getLoc(), subject, stream.str(), cost};
  Alternative alternative(op, mesh);
  if (alternative.changeToAvoid(axes.getArrayRef())) {
    CommunicationRemark::Note note{
        op->getLoc(), "it would not if it had " + alternative.describe() +
                          "; for all that this op reads, makes and exchanges " +
                          alternative.describeTraffic(sequences, cost)};
    if (StringRef name = getOpName(op); !name.empty())
      note.names.push_back(name.str());
    if (!alternative.describe().empty())
      remark.notes.push_back(note);
  }
  remarks.add(std::move(remark));
}
