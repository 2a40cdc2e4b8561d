// Classes of threads that have a part of each last-level cache, and of memory bandwidth, to themselves: how the agent's class plans reach the kernel.
//
// A class is known by a name of ours; who else has classes keeps them, and the class that every thread is born in (the kernel's default) is never
// changed. A thread stays in the class that it was moved into, and what it begins is in the same; removing a class puts its threads back into the
// default. Rules of the kernel that every adapter keeps: a mask is one run of at least `leastWays` ways of its cache; there are so many classes and
// no more; a set is taken as a whole or not at all. Masks of classes may overlap for the time of a change. Errors are conditions, not faults: the
// class then does not exist, and its threads stay where they are. Cost: set, remove O(1) system calls, join O(threads), list O(classes). Adapters:
// src/linux (Resctrl), src/testing (FakeCacheClasses); one contract suite, cache_classes_contract.h. Thread rule: control loop; the calls are the
// kernel's and short (a mutex of its own, no I/O), so they are made there.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/cache_class.h"

namespace coterie {

class CacheClasses {
 public:
  virtual ~CacheClasses() = default;
  // What can be had now; changes with the CPUs that are online and with the classes of others. Unavailable/NoCacheClasses: nothing.
  [[nodiscard]] virtual Result<CacheControl> read() = 0;
  // Makes the class if need be and gives it these shares; caches that are not named keep what they have. ResourceExhausted/NoClassLeft,
  // InvalidArgument/ClassRefused (with what the kernel says), PermissionDenied/ClassesNotWritable. After an error a new class is not there.
  [[nodiscard]] virtual Status set(const CacheClass& wanted) = 0;
  // All threads of these processes, those born meanwhile too. A process that has gone is no error. Answers those that are in a class of somebody
  // else's, and were left there. No name: back into the default class. NotFound/UnknownClass, PermissionDenied/ClassesNotWritable.
  [[nodiscard]] virtual Result<std::vector<int>> join(const std::string& name, const std::vector<int>& processes) = 0;
  virtual void remove(const std::string& name) = 0;  // unknown: nothing
  // Ours, as the kernel has them; by name.
  [[nodiscard]] virtual std::vector<CacheClass> list() const = 0;
  // Removes all of ours.
  virtual void restore() = 0;
};

}  // namespace coterie
