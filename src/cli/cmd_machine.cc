// machine: what Coterie takes a machine for, and its recording. No server is asked.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <tuple>

#include "base/count_text.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/table.h"
#include "linux/machine_reader.h"
#include "linux/machine_source_text.h"
#include "model/machine_generator.h"
#include "text/text.h"

namespace coterie::cli {
namespace {

namespace fs = std::filesystem;

struct MachineOptions {
  std::string machine{"live"};
  std::string output{"table"};
  std::string file;
};

const Domain& domainAt(const Machine& machine, int index) { return machine.domains[static_cast<std::size_t>(index)]; }
bool hasCache(const Machine& machine, const Cpu& cpu) { return domainAt(machine, cpu.cache).level == DomainLevel::Cache; }

// Domains of a level as the hardware has them: a node over two sockets counts once.
std::size_t countOf(const Machine& machine, DomainLevel level) {
  std::set<int> ids;
  std::size_t all = 0;
  for (const Domain& domain : machine.domains) {
    if (domain.level != level) continue;
    ids.insert(domain.id);
    ++all;
  }
  return level == DomainLevel::Node ? ids.size() : all;
}

std::string orDash(const CpuSet& set) { return set.empty() ? "-" : set.toString(); }

void printSummary(std::ostream& out, const Machine& machine, bool colors) {
  out << styled(printable(machine.name), Style::Strong, colors) << "\n  "
      << fmt::format("{} online in {}, {}, {}, {}; {} of memory\n", counted(machine.cpus.size(), "CPU"),
                     counted(countOf(machine, DomainLevel::Socket), "socket"), counted(countOf(machine, DomainLevel::Node), "node"),
                     counted(countOf(machine, DomainLevel::Cache), "cache group"), counted(countOf(machine, DomainLevel::Core), "core"),
                     sizeText(machine.memory));
  out << "  online " << machine.online.toString();
  if (machine.allowed != machine.online) out << "; may be used " << orDash(machine.allowed);
  if (!machine.isolated.empty()) out << "; isolated " << machine.isolated.toString();
  out << "\n\n";
}

void printCpus(std::ostream& out, const Machine& machine, bool colors) {
  struct Row {
    CpuSet cpus;
    std::set<int> cores;
    MilliCpu capacity;
  };
  std::map<std::tuple<int, int, int, int>, Row> rows;  // indices of socket, node and cache, kind
  for (const Cpu& cpu : machine.cpus) {
    Row& row = rows[{cpu.socket, cpu.node, cpu.cache, cpu.kind}];
    row.cpus.add(cpu.id);
    row.cores.insert(cpu.core);
    row.capacity = cpu.capacity;
  }
  Table table({"SOCKET", "NODE", "CACHE", "KIND", "CAPACITY", "CORES", "CPUS"});
  for (const auto& [key, row] : rows) {
    const auto& [socket, node, cache, kind] = key;
    const Domain& group = domainAt(machine, cache);
    table.add({std::to_string(domainAt(machine, socket).id), std::to_string(domainAt(machine, node).id),
               group.level == DomainLevel::Cache ? std::to_string(group.id) : "-", std::to_string(kind), cpuText(row.capacity),
               std::to_string(row.cores.size()), row.cpus.toString()});
  }
  table.print(out, colors);
}

void printMemory(std::ostream& out, const Machine& machine, bool colors) {
  Table table({"NODE", "MEMORY", "SIZE", "CPUS", "NEAR", "DISTANCES"});
  for (const MemoryNode& node : machine.memoryNodes) {
    std::string distances;
    for (const int distance : node.distance) distances += (distances.empty() ? "" : " ") + std::to_string(distance);
    table.add({std::to_string(node.id), std::string(memoryKindName(node.kind)), sizeText(node.size), orDash(node.cpus), orDash(node.near),
               distances.empty() ? "-" : distances});
  }
  out << "\n";
  table.print(out, colors);
}

void printDevices(std::ostream& out, const Machine& machine, bool colors) {
  if (machine.devices.empty()) return;
  Table table({"DEVICE", "KIND", "NODE", "CPUS"});
  for (const Device& device : machine.devices)
    table.add(
        {device.name, std::string(deviceKindName(device.kind)), device.node < 0 ? "unknown" : std::to_string(device.node), orDash(device.cpus)});
  out << "\n";
  table.print(out, colors);
}

Value valueOf(const Machine& machine, const Cpu& cpu) {
  const Domain& core = domainAt(machine, cpu.core);
  return Value(Value::Map{{"id", cpu.id},
                          {"socket", domainAt(machine, cpu.socket).id},
                          {"node", domainAt(machine, cpu.node).id},
                          {"cache", hasCache(machine, cpu) ? Value(domainAt(machine, cpu.cache).id) : Value()},
                          {"core", core.id},
                          {"siblings", core.cpus.toString()},
                          {"kind", cpu.kind},
                          {"milliCpus", cpu.capacity.value}});
}

Value valueOf(const MemoryNode& node) {
  Value distances = Value::emptyList();
  for (const int distance : node.distance) distances.push(distance);
  return Value(Value::Map{{"id", node.id},
                          {"kind", memoryKindName(node.kind)},
                          {"bytes", node.size.value},
                          {"cpus", node.cpus.toString()},
                          {"near", node.near.toString()},
                          {"distances", std::move(distances)}});
}

Value valueOf(const Device& device) {
  return Value(Value::Map{{"name", device.name},
                          {"kind", deviceKindName(device.kind)},
                          {"node", device.node < 0 ? Value() : Value(device.node)},
                          {"cpus", device.cpus.toString()}});
}

Value valueOf(const Machine& machine) {
  Value cpus = Value::emptyList();
  for (const Cpu& cpu : machine.cpus) cpus.push(valueOf(machine, cpu));
  Value nodes = Value::emptyList();
  for (const MemoryNode& node : machine.memoryNodes) nodes.push(valueOf(node));
  Value devices = Value::emptyList();
  for (const Device& device : machine.devices) devices.push(valueOf(device));
  return Value(Value::Map{{"name", machine.name},
                          {"online", machine.online.toString()},
                          {"allowed", machine.allowed.toString()},
                          {"isolated", machine.isolated.toString()},
                          {"memoryBytes", machine.memory.value},
                          {"cpus", std::move(cpus)},
                          {"memoryNodes", std::move(nodes)},
                          {"devices", std::move(devices)}});
}

int show(Context& context, const MachineOptions& options) {
  const auto machine = linux::machineFromSource(options.machine);
  if (!machine.ok()) return context.fail(machine.error());
  std::ostream& out = context.terminal.out;
  if (options.output == "json") return out << text::printJson(valueOf(*machine), text::JsonStyle::Indented) << "\n", kOk;
  printSummary(out, *machine, context.terminal.colors);
  printCpus(out, *machine, context.terminal.colors);
  printMemory(out, *machine, context.terminal.colors);
  printDevices(out, *machine, context.terminal.colors);
  return kOk;
}

int record(Context& context, const MachineOptions& options) {
  const auto xml = linux::recordMachine();
  if (!xml.ok()) return context.fail(xml.error());
  if (options.file == "-") return context.terminal.out << *xml, kOk;
  fs::path path = options.file;
  std::error_code fault;
  if (path.extension() != ".xml") {
    fs::create_directories(path, fault);
    path /= "machine.xml";
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << *xml;
  file.close();
  if (!file) return context.fail({Code::Internal, "CannotWrite", path.string() + " cannot be written: is its folder there, and yours?"});
  context.terminal.out << "wrote " << path.string() << "; coterie machine show --machine " << path.string() << " shows it\n";
  return kOk;
}

int list(Context& context) {
  Table table({"MACHINE", "CPUS", "SOCKETS", "NODES", "CACHES", "CORES", "MEMORY NODES", "DEVICES"});
  for (const std::string_view name : shapeNames()) {
    const auto machine = shapeNamed(name);
    if (!machine) continue;
    table.add({std::string(name), std::to_string(machine->cpus.size()), std::to_string(countOf(*machine, DomainLevel::Socket)),
               std::to_string(countOf(*machine, DomainLevel::Node)), std::to_string(countOf(*machine, DomainLevel::Cache)),
               std::to_string(countOf(*machine, DomainLevel::Core)), std::to_string(machine->memoryNodes.size()),
               std::to_string(machine->devices.size())});
  }
  table.print(context.terminal.out, context.terminal.colors);
  return kOk;
}

}  // namespace

Command makeMachine() {
  const auto options = std::make_shared<MachineOptions>();
  Command shown{"show",
                "Machine",
                "Show a machine as Coterie sees it: CPUs, caches, nodes, memory, devices",
                "coterie machine show\n  coterie machine show --machine epyc-2s-nps4-12-caches-384\n  coterie machine show --machine "
                "'synthetic:pack:2 core:4 pu:2'",
                {{"--machine",
                  "live, a generated one's name, FILE.xml, a recorded folder, or synthetic:DESCRIPTION",
                  &options->machine,
                  {},
                  Names::Files,
                  false},
                 outputOption(&options->output, {"table", "json"})},
                {},
                [options](Context& context) { return show(context, *options); }};
  Command recorded{"record",
                   "Machine",
                   "Write this machine as hwloc XML, to be planned for and tested with elsewhere",
                   "coterie machine record -o machine.xml",
                   {{"-o,--output", "FILE.xml, a folder that gets a machine.xml, or - for standard output", &options->file, {}, Names::Files, true}},
                   {},
                   [options](Context& context) { return record(context, *options); }};
  Command listed{"list", "Machine", "List the generated machines", "", {}, {}, [](Context& context) { return list(context); }};
  return {"machine", "Machine", "Show and record machines (no server is needed)", "", {}, {std::move(shown), std::move(recorded), std::move(listed)},
          {}};
}

}  // namespace coterie::cli
