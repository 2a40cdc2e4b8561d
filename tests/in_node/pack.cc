#include "pack.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>

namespace coterie::in_node {

namespace {
namespace fs = std::filesystem;

// glibc and its loader belong together and to the machine.
bool ofTheSystem(const std::string& name) {
  for (const std::string_view prefix : {"ld-", "libc.", "libm.", "libpthread", "libdl.", "librt.", "libresolv"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

std::set<fs::path> librariesInUse() {
  std::set<fs::path> libraries;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t slash = line.find('/');
    if (slash == std::string::npos) continue;
    const fs::path path = line.substr(slash);
    if (path.filename().string().find(".so") != std::string::npos && !ofTheSystem(path.filename().string())) libraries.insert(path);
  }
  return libraries;
}

// A library is looked up by its soname, which is the name of a link beside the file on Debian: both names are given.
void copyLibrary(const fs::path& library, const fs::path& to) {
  fs::copy_file(library, to / library.filename(), fs::copy_options::overwrite_existing);
  for (const auto& entry : fs::directory_iterator(library.parent_path())) {
    std::error_code ignored;
    if (entry.is_symlink(ignored) && fs::equivalent(entry.path(), library, ignored) && !fs::exists(to / entry.path().filename())) {
      fs::create_symlink(library.filename(), to / entry.path().filename());
    }
  }
}
}  // namespace

Status pack(const std::string& folder, const std::string& runtimeLibrary) {
  try {  // the standard library's file operations throw; here is their border
    const fs::path root = folder;
    fs::create_directories(root / "lib");
    fs::copy_file("/proc/self/exe", root / "in-node", fs::copy_options::overwrite_existing);
    for (const auto& library : librariesInUse()) copyLibrary(library, root / "lib");
    fs::copy_file(fs::canonical(runtimeLibrary), root / "lib" / "libonnxruntime.so", fs::copy_options::overwrite_existing);
    std::ofstream script(root / "run.sh");
    script << "#!/bin/sh\n"
              "# The quick form of Coterie's in-node bench on this machine; figures in in-node.json, in-node.svg. As root: it freezes processes by "
              "cgroup.\n"
              "cd \"$(dirname \"$0\")\" || exit\n"
              "export COTERIE_ORT=\"$PWD/lib/libonnxruntime.so\" COTERIE_BENCH_MODELS=\"$PWD/models\" COTERIE_BENCH_SANDBOX=off\n"
              "exec ./in-node --quick --json in-node.json --svg in-node.svg \"$@\"\n";
    script.close();
    fs::permissions(root / "run.sh", fs::perms::owner_all | fs::perms::group_read | fs::perms::others_read);
  } catch (const fs::filesystem_error& error) {
    return Error{Code::Unavailable, "PackFailed", error.what()};
  }
  return {};
}

}  // namespace coterie::in_node
