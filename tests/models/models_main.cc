// Writes generated ONNX models into a folder, for tests, benches and people: coterie_models OUT [NAME...]; without names, all that load.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "testing/onnx_writer.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: coterie_models OUT [NAME...]\nnames:");
    for (const std::string& name : coterie::testing::modelNames()) std::fprintf(stderr, " %s", name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::vector<std::string> names(argv + 2, argv + argc);
  if (names.empty()) names = coterie::testing::modelNames();
  for (const std::string& name : names) {
    const auto model = coterie::testing::makeModel(name);
    if (!model.ok()) {
      std::fprintf(stderr, "%s\n", model.error().message.c_str());
      return 1;
    }
    std::ofstream file(folder / (name + ".onnx"), std::ios::binary);
    file.write(model->data(), static_cast<std::streamsize>(model->size()));
    if (!file.flush()) {
      std::fprintf(stderr, "cannot write %s\n", (folder / (name + ".onnx")).c_str());
      return 1;
    }
  }
  return 0;
}
