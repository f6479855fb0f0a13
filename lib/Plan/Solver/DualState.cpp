//===- DualState.cpp - What a bound has learnt ----------------------------===//

#include "DualState.h"

#include <algorithm>
#include <unordered_map>

namespace heddle::solver {

namespace {

/// Messages by name of the variable that gets them, then of the one at the
/// pair's other end.
class Messages {
public:
  Messages(const DualState &State, const Model &M, const ModelNames &Names)
      : State(State), Names(Names) {
    for (size_t Id = 0; Id < State.Messages.size(); ++Id) {
      int32_t A = Names.Vars[M.Pairs[Id].A], B = Names.Vars[M.Pairs[Id].B];
      Pairs[key(A, B)] = {Id, 0, M.Pairs[Id].A};
      Pairs[key(B, A)] = {Id, M.Vars[M.Pairs[Id].A].Unary.size(),
                          M.Pairs[Id].B};
    }
  }

  /// Appends the message to `Var` from its pair with `Other`, for the values of
  /// these names; zeros for what is not known.
  void append(int32_t Var, int32_t Other, const std::vector<int32_t> &Values,
              std::vector<double> &Out) const {
    auto Found = Pairs.find(key(Var, Other));
    if (Found == Pairs.end()) {
      Out.resize(Out.size() + Values.size(), 0);
      return;
    }
    const auto &[Id, First, Own] = Found->second;
    const std::vector<int32_t> &Known = Names.Values[Own];
    for (int32_t Value : Values) {
      auto At = std::ranges::find(Known, Value);
      Out.push_back(At == Known.end()
                        ? 0
                        : State.Messages[Id][First + (At - Known.begin())]);
    }
  }

private:
  static uint64_t key(int32_t A, int32_t B) {
    return static_cast<uint64_t>(A) << 32 | static_cast<uint32_t>(B);
  }
  struct Place {
    size_t Id, First;
    int32_t Own;
  };
  const DualState &State;
  const ModelNames &Names;
  std::unordered_map<uint64_t, Place> Pairs;
};

} // namespace

DualState carryOver(const DualState &State, const Model &From,
                    const ModelNames &FromNames, const Model &To,
                    const ModelNames &ToNames) {
  DualState Result;
  Result.Prices.assign(ToNames.Times.size(), 0);
  for (size_t T = 0; T < State.Prices.size() && !Result.Prices.empty(); ++T) {
    size_t Next = std::ranges::lower_bound(ToNames.Times, FromNames.Times[T]) -
                  ToNames.Times.begin();
    Result.Prices[std::min(Next, Result.Prices.size() - 1)] += State.Prices[T];
  }
  Messages Known(State, From, FromNames);
  for (const Pair &P : To.Pairs) {
    int32_t A = ToNames.Vars[P.A], B = ToNames.Vars[P.B];
    auto &Row = Result.Messages.emplace_back();
    Known.append(A, B, ToNames.Values[P.A], Row);
    Known.append(B, A, ToNames.Values[P.B], Row);
  }
  return Result;
}

} // namespace heddle::solver
