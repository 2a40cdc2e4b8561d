#include "cli/manifests.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "objects/encode.h"
#include "text/text.h"

namespace coterie::cli {
namespace {

namespace fs = std::filesystem;

struct Source {
  std::string name;
  std::string text;
};

bool isManifest(const fs::path& path) { return path.extension() == ".yaml" || path.extension() == ".yml" || path.extension() == ".json"; }

void readSource(const Context& context, const std::string& path, std::vector<Source>& sources, std::vector<std::string>& faults) {
  auto text = readInput(context, path);
  if (!text.ok()) return faults.push_back(text.error().message), void();
  sources.push_back({path == "-" ? "standard input" : path, std::move(*text)});
}

void readPath(const Context& context, const std::string& path, std::vector<Source>& sources, std::vector<std::string>& faults) {
  std::error_code ec;
  if (path == "-" || !fs::is_directory(path, ec)) return readSource(context, path, sources, faults);
  std::vector<std::string> files;
  for (auto entry = fs::directory_iterator(path, ec); !ec && entry != fs::directory_iterator(); entry.increment(ec)) {
    if (entry->is_regular_file(ec) && isManifest(entry->path())) files.push_back(entry->path().string());
  }
  if (ec) return faults.push_back(path + ": cannot be read: " + ec.message()), void();
  if (files.empty()) faults.push_back(path + ": holds no *.yaml, *.yml or *.json file");
  std::sort(files.begin(), files.end());
  for (const auto& file : files) readSource(context, file, sources, faults);
}

}  // namespace

Result<std::string> readInput(const Context& context, const std::string& path) {
  if (path == "-") return text::readUpToLimit(context.terminal.in);
  const auto unreadable = [&](std::string_view why) {
    return Error{Code::InvalidArgument, "Unreadable", path + ": cannot be read" + std::string(why)};
  };
  std::error_code ec;
  if (fs::is_directory(path, ec)) return unreadable(": it is a folder");
  std::ifstream file(path, std::ios::binary);
  std::string text = text::readUpToLimit(file);
  if (!file.is_open() || file.bad()) return unreadable("; check that it exists and that you may read it");
  return text;
}

Manifests readManifests(const Context& context, const std::vector<std::string>& paths, const std::string& defaultNamespace) {
  Manifests manifests;
  std::vector<Source> sources;
  for (const auto& path : paths) readPath(context, path, sources, manifests.faults);
  std::set<std::string> titles;
  for (const auto& [name, text] : sources) {
    const auto complain = [&](const Faults& faults) {
      for (const Fault& fault : faults) manifests.faults.push_back(name + ":" + (fault.line > 0 ? "" : " ") + faultText(fault));
    };
    const auto documents = text::parseYaml(text);
    complain(documents.faults);
    if (!documents.faults.empty()) continue;
    auto decoded = objects::decodeDocuments(documents.values, {defaultNamespace});
    complain(decoded.faults);
    if (decoded.faults.empty() && decoded.objects.empty()) manifests.faults.push_back(name + ": holds no object");
    for (auto& object : decoded.objects) {
      if (!titles.insert(object.title()).second)
        manifests.faults.push_back(name + ":" + std::to_string(object.line) + ": " + object.title() + " is in another file as well");
      manifests.objects.push_back(std::move(object));
    }
  }
  // Tenants to the front, else in the order read.
  Manifests ordered{{}, std::move(manifests.faults)};
  for (const std::string_view kind : {kTenantKind, kModelServiceKind}) {
    for (auto& object : manifests.objects) {
      if (object.kind() == kind) ordered.objects.push_back(std::move(object));
    }
  }
  return ordered;
}

Value manifestValue(const objects::AnyObject& object) {
  Value value = std::holds_alternative<TenantSpec>(object.spec)
                    ? objects::encodeObject(Tenant{object.metadata, std::get<TenantSpec>(object.spec)})
                    : objects::encodeObject(ModelService{object.metadata, std::get<ModelServiceSpec>(object.spec)});
  if (object.resourceVersion) value.find("metadata")->set("resourceVersion", std::to_string(*object.resourceVersion));
  return value;
}

}  // namespace coterie::cli
