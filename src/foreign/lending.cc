#include "foreign/lending.h"

#include <algorithm>
#include <tuple>

namespace coterie::foreign {

namespace {

constexpr Seconds kNeedLasts{1};
constexpr std::int64_t kCpu = 1000;

CpuSet homesOf(const LendingGroup& group) {
  CpuSet homes;
  for (const LendingContainer& container : group.containers) homes |= container.home;
  return homes;
}

bool mayShare(const LendingGroup& one, const LendingGroup& other) {
  return one.tenant == other.tenant || (one.isolation == Isolation::None && other.isolation == Isolation::None);
}

}  // namespace

void Lending::clear() {
  current_.clear();
  loans_.clear();
}

int Lending::borrowedBy(std::size_t number) const {
  return static_cast<int>(std::count_if(current_.begin(), current_.end(), [&](const Loan& loan) { return loan.borrower == number; }));
}

Lending::Account Lending::accountOf(std::size_t number, const LendingGroup& group, Instant now) {
  Account account;
  const std::int64_t owned = kCpu * homesOf(group).count();
  if (group.apart || owned == 0 || !group.last.known()) return hungrySince_.erase(number), account;
  const MilliCpu has{owned + kCpu * borrowedBy(number)};
  const MilliCpu recent = foreignDemand(group.last, has);
  const MilliCpu demand = std::max(recent, foreignDemand(group.window, has));
  if (group.lends) account.spare = static_cast<int>(std::max<std::int64_t>(0, owned - demand.value) / kCpu);
  // A need begins with what is used now, and lasts while there was one of late: who idles for a moment loses nothing by it.
  const std::int64_t need = hungrySince_.count(number) > 0 ? demand.value : recent.value;
  const std::int64_t most = group.ceiling.value > 0 ? std::min(need, group.ceiling.value) : need;
  if (most <= owned) return hungrySince_.erase(number), account;
  const Instant since = hungrySince_.try_emplace(number, now).first->second;
  if (now - since >= kNeedLasts) account.lacks = static_cast<int>((most - owned + kCpu - 1) / kCpu);
  return account;
}

const std::map<InstanceId, CpuSet>& Lending::look(Instant now, const std::map<std::size_t, LendingGroup>& groups) {
  std::map<std::size_t, Account> accounts;
  for (const auto& [number, group] : groups) accounts[number] = accountOf(number, group, now);
  // What may stay. The loans that were made first stay longest.
  std::vector<Loan> kept;
  CpuSet taken;
  for (const Loan& loan : current_) {
    const auto owner = groups.find(loan.owner);
    const auto borrower = groups.find(loan.borrower);
    if (owner == groups.end() || borrower == groups.end() || !mayShare(owner->second, borrower->second)) continue;
    const auto& homes = borrower->second.containers;
    const bool there = std::any_of(homes.begin(), homes.end(), [&](const LendingContainer& one) { return one.id == loan.container; });
    Account& gives = accounts[loan.owner];
    Account& gets = accounts[loan.borrower];
    if (!there || !homesOf(owner->second).contains(loan.cpu) || gives.lent >= gives.spare || gets.borrowed >= gets.lacks) continue;
    ++gives.lent;
    ++gets.borrowed;
    taken.add(loan.cpu);
    kept.push_back(loan);
  }
  current_ = std::move(kept);
  for (;;) {
    std::optional<std::tuple<int, std::size_t, int, std::size_t>> best;  // borrowed, borrower, -left, owner
    for (const auto& [borrower, gets] : accounts) {
      if (gets.borrowed >= gets.lacks) continue;
      for (const auto& [owner, gives] : accounts) {
        if (owner == borrower || gives.lent >= gives.spare || !mayShare(groups.at(owner), groups.at(borrower))) continue;
        if ((homesOf(groups.at(owner)) - taken).empty()) continue;
        const std::tuple candidate{gets.borrowed, borrower, gives.lent - gives.spare, owner};
        if (!best || candidate < *best) best = candidate;
      }
    }
    if (!best) break;
    const std::size_t borrower = std::get<1>(*best);
    const std::size_t owner = std::get<3>(*best);
    const int cpu = (homesOf(groups.at(owner)) - taken).last();
    const auto loansOf = [&](InstanceId id) {
      return std::count_if(current_.begin(), current_.end(), [&](const Loan& loan) { return loan.container == id; });
    };
    const auto& containers = groups.at(borrower).containers;
    const auto container = std::min_element(containers.begin(), containers.end(), [&](const LendingContainer& a, const LendingContainer& b) {
      return std::tuple(loansOf(a.id), a.id) < std::tuple(loansOf(b.id), b.id);
    });
    current_.push_back({cpu, owner, borrower, container->id});
    taken.add(cpu);
    ++accounts[owner].lent;
    ++accounts[borrower].borrowed;
  }
  loans_.clear();
  for (const Loan& loan : current_) loans_[loan.container].add(loan.cpu);
  return loans_;
}

}  // namespace coterie::foreign
