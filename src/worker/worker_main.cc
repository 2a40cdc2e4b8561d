#include "worker/worker_main.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "worker/launch.h"
#include "worker/serve_model.h"

namespace coterie::worker {

int workerMain(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "launch") return launch();
  if (mode == "run" && argc == 5) return serveModel({std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4])});
  std::fputs("this is a part of `coterie serve`, which starts it by itself\n", stderr);
  return 2;
}

}  // namespace coterie::worker
