// A worker binary of its own, so that tests of workers need not build the whole program.
#include "worker/worker_main.h"

int main(int argc, char** argv) { return coterie::worker::workerMain(argc, argv); }
