// A bench subject: a process that runs a scenario's services under one policy and keeps their closed loops going.
//
// It is the product's own parts wired as `coterie serve` wires them (process::ProcessRuntime, channel::LocalBackend, agent::Drc, linux controllers),
// without HTTP and store. Its clock leaves out the time that it was frozen.
#pragma once

#include "base/result.h"

namespace coterie::in_node {

// Command line: --subject --page FD --policy NAME --threads NAME --services LIST. Runs until killed.
int subjectMain(int argc, char** argv);

// This binary is also its own worker.
[[nodiscard]] bool isWorkerCall(int argc, char** argv);
int workerCall(int argc, char** argv);

// The generated models, made once below build/bench/models (or $COTERIE_BENCH_MODELS).
[[nodiscard]] std::string modelPath(const std::string& model);
[[nodiscard]] Status makeModels();

}  // namespace coterie::in_node
