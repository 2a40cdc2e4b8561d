// What hwloc's own lstopo says about a file: counts, CPU sets, sizes and distances, as an independent reading of the same machine. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "linux/machine_checks.h"

namespace coterie::linux {

inline bool lstopoIsHere() { return std::system("command -v lstopo-no-graphics >/dev/null 2>&1") == 0; }

struct LstopoAnswer {
  std::map<std::string, int, std::less<>> objects;               // by type
  std::map<std::string, std::vector<CpuSet>, std::less<>> sets;  // of the same objects
  CpuSet cpus;
  std::map<int, CpuSet> nodeCpus;         // by id
  std::map<int, std::int64_t> nodeBytes;  // by id
  std::vector<int> matrixNodes;           // in the order of the matrix
  std::vector<int> matrix;
};

namespace lstopo {

inline std::string attribute(std::string_view tag, std::string_view name) {
  const std::size_t found = tag.find(" " + std::string(name) + "=\"");
  if (found == std::string_view::npos) return "";
  const std::size_t begin = found + name.size() + 3;
  return std::string(tag.substr(begin, tag.find('"', begin) - begin));
}

inline std::vector<int> numbers(std::string_view text) {
  std::vector<int> found;
  while (!text.empty()) {
    int value = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (fault == std::errc{}) found.push_back(value);
    const std::size_t used = fault == std::errc{} ? static_cast<std::size_t>(end - text.data()) : 0;
    text.remove_prefix(std::min(text.size(), used + 1));
  }
  return found;
}

// "0x00000001,,0x00000101": words of 32 bits, the highest first.
inline CpuSet cpuSet(std::string_view text) {
  constexpr int kBitsOfWord = 32;
  CpuSet cpus;
  const auto commas = static_cast<int>(std::count(text.begin(), text.end(), ','));
  for (int word = commas; word >= 0; --word) {
    const std::size_t comma = text.find(',');
    const std::string digits(text.substr(0, comma));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    const unsigned long bits = digits.empty() ? 0 : std::strtoul(digits.c_str(), nullptr, 16);
    for (int bit = 0; bit < kBitsOfWord; ++bit) {
      if ((bits >> bit & 1U) != 0) cpus.add(word * kBitsOfWord + bit);
    }
  }
  return cpus;
}

}  // namespace lstopo

// input: a recorded root or an XML file that this hwloc reads. Nothing if lstopo fails.
inline std::optional<LstopoAnswer> askLstopo(const std::string& input, const std::string& scratchFile) {
  const std::string command = "lstopo-no-graphics --force --disallowed --input '" + input + "' '" + scratchFile + ".xml' >/dev/null 2>&1";
  if (std::system(command.c_str()) != 0) return std::nullopt;
  const std::string xml = contentsOf(scratchFile + ".xml");
  LstopoAnswer answer;
  bool inMatrix = false;
  for (std::size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    const std::string_view tag = std::string_view(xml).substr(at, xml.find('>', at) - at);
    if (tag.starts_with("<object ")) {
      const std::string type = lstopo::attribute(tag, "type");
      const CpuSet cpus = lstopo::cpuSet(lstopo::attribute(tag, "cpuset"));
      ++answer.objects[type];
      answer.sets[type].push_back(cpus);
      if (type == "PU") answer.cpus |= cpus;
      if (type == "NUMANode") {
        answer.nodeCpus[std::atoi(lstopo::attribute(tag, "os_index").c_str())] = cpus;
        const std::string bytes = lstopo::attribute(tag, "local_memory");
        answer.nodeBytes[std::atoi(lstopo::attribute(tag, "os_index").c_str())] = bytes.empty() ? 0 : std::stoll(bytes);
      }
    } else if (tag.starts_with("<distances2 ")) {
      inMatrix = lstopo::attribute(tag, "type") == "NUMANode" && answer.matrix.empty();
    } else if (tag.starts_with("</distances2")) {
      inMatrix = false;
    } else if (inMatrix && (tag.starts_with("<indexes") || tag.starts_with("<u64values"))) {
      const std::size_t begin = at + tag.size() + 1;
      const auto values = lstopo::numbers(std::string_view(xml).substr(begin, xml.find('<', begin) - begin));
      auto& list = tag.starts_with("<indexes") ? answer.matrixNodes : answer.matrix;
      list.insert(list.end(), values.begin(), values.end());
    }
  }
  return answer;
}

// The CPU sets of a level, one for each id (cores: one for each), in order.
inline std::vector<std::string> setsOf(const Machine& machine, DomainLevel level) {
  std::vector<std::string> sets;
  std::map<int, CpuSet> byId;
  for (const Domain& domain : machine.domains) {
    if (domain.level != level) continue;
    if (level == DomainLevel::Core) {
      sets.push_back(domain.cpus.toString());
    } else {
      byId[domain.id] |= domain.cpus;
    }
  }
  for (const auto& [id, cpus] : byId) sets.push_back(cpus.toString());
  std::sort(sets.begin(), sets.end());
  return sets;
}

inline void expectSets(const Machine& machine, DomainLevel level, const LstopoAnswer& answer, std::string_view type) {
  const auto found = answer.sets.find(type);
  if (found == answer.sets.end()) return;  // the level is not in the files
  std::vector<std::string> theirs;
  for (const CpuSet& cpus : found->second) theirs.push_back(cpus.toString());
  std::sort(theirs.begin(), theirs.end());
  EXPECT_EQ(setsOf(machine, level), theirs) << type;
}

inline void expectAsLstopo(const Machine& machine, const LstopoAnswer& answer) {
  const auto objects = [&](std::string_view type) {
    const auto found = answer.objects.find(type);
    return found == answer.objects.end() ? 0 : found->second;
  };
  EXPECT_EQ(static_cast<int>(machine.cpus.size()), objects("PU"));
  if (objects("Core") > 0) {
    EXPECT_EQ(countOf(machine, DomainLevel::Core), objects("Core"));
  }
  if (objects("L3Cache") > 0) {
    EXPECT_EQ(countOf(machine, DomainLevel::Cache), objects("L3Cache"));
  }
  EXPECT_EQ(countOf(machine, DomainLevel::Socket), std::max(1, objects("Package")));
  EXPECT_EQ(machine.online, answer.cpus);
  expectSets(machine, DomainLevel::Socket, answer, "Package");
  expectSets(machine, DomainLevel::Cache, answer, "L3Cache");
  expectSets(machine, DomainLevel::Core, answer, "Core");
  EXPECT_EQ(static_cast<int>(machine.memoryNodes.size()), objects("NUMANode"));
  for (const MemoryNode& node : machine.memoryNodes) {
    const auto bytes = answer.nodeBytes.find(node.id);
    ASSERT_NE(bytes, answer.nodeBytes.end()) << "node " << node.id;
    EXPECT_EQ(node.size.value, bytes->second) << "node " << node.id;
    if (!node.cpus.empty()) {
      EXPECT_EQ(node.cpus, answer.nodeCpus.at(node.id)) << "node " << node.id;
    }
  }
  const std::size_t wide = answer.matrixNodes.size();
  ASSERT_EQ(answer.matrix.size(), wide * wide);
  const auto indexOf = [&](int id) {
    return static_cast<std::size_t>(std::find(answer.matrixNodes.begin(), answer.matrixNodes.end(), id) - answer.matrixNodes.begin());
  };
  for (const MemoryNode& from : machine.memoryNodes) {
    EXPECT_EQ(from.distance.empty(), wide == 0);
    for (std::size_t to = 0; to < from.distance.size() && wide > 0; ++to)
      EXPECT_EQ(from.distance[to], answer.matrix[indexOf(from.id) * wide + indexOf(machine.memoryNodes[to].id)]) << from.id << " to " << to;
  }
}

}  // namespace coterie::linux
