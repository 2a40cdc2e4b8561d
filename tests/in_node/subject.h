// A bench subject: a process that runs a scenario's services under one policy and keeps their closed loops going.
//
// It is a BenchNode whose clock leaves out the time that it was frozen.
#pragma once

#include "base/result.h"

namespace coterie::in_node {

// Command line: --subject --page FD --policy NAME --threads NAME --services LIST. Runs until killed.
int subjectMain(int argc, char** argv);

}  // namespace coterie::in_node
