// What the hostile worker tries, by name; the test runs them one after the other.
#pragma once

#include <string>

#include "channel/control_messages.h"

namespace coterie::hostile {

// Descriptors that came with Setup, as a worker gets them.
struct Loot {
  int signals{-1};
  int requests{-1};
  int answers{-1};
  int memoryFile{-1};  // of a prepared model; -1: none came
  int lane{-1};
  channel::SetupMessage setup;
};
Loot receiveLoot();

// Plays a worker that breaks its protocol in the named way; returns if the name is none of its tries.
void breakProtocol(const std::string& name, const Loot& loot);

}  // namespace coterie::hostile
