// Entry of a worker process, for `coterie worker ...` (hidden) and for a binary of its own.
//
//   worker launch                          reads a Launch message from fd 3, enters the sandbox, opens the model and ONNX Runtime, becomes `worker
//   run` worker run MODEL_FD FOLDER_FD ORT_FD   reads Setup, loads the model, probes it, starts the lanes, says Ready, runs until Stop or the
//   supervisor's end
// Exit codes: 0 told to stop or told why it cannot serve; 2 started by hand. Thread rule: called from main().
#pragma once

namespace coterie::worker {

// argv[0] is "worker" or the binary's name; argv[1] "launch" or "run".
int workerMain(int argc, char** argv);

}  // namespace coterie::worker
