//===- Plan.cpp - Names and globs of plans --------------------------------===//

#include "heddle/Plan/Plan.h"
#include "llvm/ADT/StringExtras.h"

#include <numeric>

using namespace heddle;
using llvm::StringRef;

PlanPosition Plan::getPosition(StringRef key) const {
  auto known = positions.find(key.str());
  return known == positions.end() ? PlanPosition() : known->second;
}

int64_t Plan::getNumDevices() const {
  int64_t devices = 1;
  for (const PlanAxis &axis : mesh)
    devices *= axis.size;
  return devices;
}

int64_t Plan::getAxisSize(StringRef name) const {
  for (const PlanAxis &axis : mesh)
    if (axis.name == name)
      return axis.size;
  return 0;
}

std::vector<std::string> Plan::addAxes(const std::string &name,
                                       llvm::ArrayRef<int64_t> sizes) {
  if (sizes.size() == 1) {
    mesh.push_back({name, sizes[0]});
    return {name};
  }
  PlanProduct product{name, {}};
  for (size_t i = 0; i < sizes.size(); ++i) {
    product.axes.push_back(name + "." + std::to_string(i));
    mesh.push_back({product.axes.back(), sizes[i]});
  }
  products.push_back(product);
  return product.axes;
}

std::string heddle::getPlanPath(StringRef section, StringRef glob,
                                StringRef key) {
  std::string path = "$." + section.str();
  if (!glob.empty())
    path += "[\"" + glob.str() + "\"]";
  if (!key.empty())
    path += llvm::isAlpha(key.front()) ? "." + key.str()
                                       : "[\"" + key.str() + "\"]";
  return path;
}

std::string heddle::getPlanPath(StringRef section, StringRef glob,
                                unsigned dim) {
  return getPlanPath(section, glob, std::to_string(dim));
}

bool heddle::matchesGlob(StringRef glob, StringRef name) {
  // Matches greedily. At a mismatch, goes back to the last star.
  size_t g = 0, n = 0, star = StringRef::npos, resume = 0;
  while (n < name.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      resume = n;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == name[n])) {
      ++g;
      ++n;
    } else if (star != StringRef::npos) {
      g = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*')
    ++g;
  return g == glob.size();
}

unsigned heddle::getGlobSpecificity(StringRef glob) {
  return glob.size() - glob.count('*') - glob.count('?');
}

/// Returns the matching entry whose glob has the most literal characters. Sets
/// `rival` to an entry with as many that disagrees with it, or to null.
template <typename EntryT>
static const EntryT *
findMostSpecific(llvm::ArrayRef<EntryT> entries,
                 llvm::function_ref<bool(const EntryT &)> matches,
                 llvm::function_ref<bool(const EntryT &, const EntryT &)> agree,
                 const EntryT **rival) {
  const EntryT *best = nullptr;
  if (rival)
    *rival = nullptr;
  for (const EntryT &entry : entries) {
    if (!matches(entry))
      continue;
    unsigned mine = getGlobSpecificity(entry.glob);
    unsigned other = best ? getGlobSpecificity(best->glob) : 0;
    if (!best || mine > other) {
      best = &entry;
      if (rival)
        *rival = nullptr;
    } else if (mine == other && rival && !agree(*best, entry)) {
      *rival = &entry;
    }
  }
  return best;
}

/// Returns whether `a` contains every assignment of `b`.
template <typename KeyT>
static bool covers(const PlanEntry<KeyT> &a, const PlanEntry<KeyT> &b) {
  return llvm::all_of(b.assignments, [&](const PlanAssignment<KeyT> &wanted) {
    const PlanAssignment<KeyT> *found = a.find(wanted.key);
    return found && found->axes == wanted.axes;
  });
}

template <typename KeyT>
static const PlanEntry<KeyT> *
findWholeEntry(llvm::ArrayRef<PlanEntry<KeyT>> entries, StringRef name,
               const PlanEntry<KeyT> **rival) {
  using Entry = PlanEntry<KeyT>;
  return findMostSpecific<Entry>(
      entries,
      [&](const Entry &entry) { return matchesGlob(entry.glob, name); },
      [](const Entry &a, const Entry &b) {
        return covers(a, b) && covers(b, a);
      },
      rival);
}

const FactorEntry *heddle::findPlanEntry(llvm::ArrayRef<FactorEntry> entries,
                                         StringRef name,
                                         const FactorEntry **rival) {
  return findWholeEntry(entries, name, rival);
}

const StorageEntry *heddle::findPlanEntry(llvm::ArrayRef<StorageEntry> entries,
                                          StringRef name,
                                          const StorageEntry **rival) {
  return findWholeEntry(entries, name, rival);
}

const FactorEntry *heddle::findPlanEntry(llvm::ArrayRef<FactorEntry> entries,
                                         StringRef name,
                                         const std::string &factor,
                                         const FactorEntry **rival) {
  return findMostSpecific<FactorEntry>(
      entries,
      [&](const FactorEntry &entry) {
        return entry.find(factor) && matchesGlob(entry.glob, name);
      },
      [&](const FactorEntry &a, const FactorEntry &b) {
        return a.find(factor)->axes == b.find(factor)->axes;
      },
      rival);
}

const PlanSplit *heddle::findPlanSplit(llvm::ArrayRef<PlanSplit> splits,
                                       StringRef name,
                                       const PlanSplit **rival) {
  return findMostSpecific<PlanSplit>(
      splits,
      [&](const PlanSplit &split) { return matchesGlob(split.glob, name); },
      [](const PlanSplit &a, const PlanSplit &b) {
        return a.factor == b.factor && a.slices == b.slices &&
               a.sharded == b.sharded;
      },
      rival);
}

const PlanPriority *
heddle::findPlanPriority(llvm::ArrayRef<PlanPriority> priorities,
                         StringRef name, const PlanPriority **rival) {
  return findMostSpecific<PlanPriority>(
      priorities,
      [&](const PlanPriority &entry) { return matchesGlob(entry.glob, name); },
      [](const PlanPriority &a, const PlanPriority &b) {
        return a.priority == b.priority;
      },
      rival);
}

/// Returns the edit distance of a glob to a name, computed by Wagner and
/// Fischer's table row by row. `*` matches any characters and `?` any one, both
/// without cost.
static unsigned getGlobDistance(StringRef glob, StringRef name) {
  std::vector<unsigned> row(name.size() + 1);
  std::iota(row.begin(), row.end(), 0u);
  for (char letter : glob) {
    bool any = letter == '*';
    unsigned diagonal = row[0];
    row[0] += any ? 0 : 1;
    for (size_t i = 1; i <= name.size(); ++i) {
      unsigned above = row[i];
      bool same = letter == '?' || letter == name[i - 1];
      row[i] = any ? std::min(above, row[i - 1])
                   : std::min({above + 1, row[i - 1] + 1,
                               diagonal + (same ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

StringRef heddle::findNearestName(StringRef glob,
                                  llvm::ArrayRef<std::string> candidates) {
  StringRef nearest;
  unsigned best = std::max<size_t>(2, glob.size() / 2) + 1;
  for (const std::string &candidate : candidates) {
    unsigned distance = getGlobDistance(glob, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}
