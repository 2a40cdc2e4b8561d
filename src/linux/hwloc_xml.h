// hwloc's XML between versions: what hwloc 3 writes (topology version 3.x), made readable for hwloc 2.
//
// What differs: the version; ids of objects (dropped); types of operating-system devices, a set of bits in 3.x and a number in 2.x; infos of the
// topology, which 2.x keeps in the root object; pci_locality and memtier (dropped: 2.x has no such thing, and what a tier says stands in each node's
// subtype); distances that count hops (dropped: they are no latencies); remarks in places where 2.x takes none. Everything else is copied byte for
// byte. In both, numbers and sets of objects are checked: hwloc reads of them what it can, and would report another machine. An element, object type
// or device type that is not known is refused by name, as leaving it out could make another machine. The input is a file that somebody hands over:
// nothing is assumed of it but that it fits memory. O(length). Pure. Thread-compatible.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace coterie::linux {

// The same text if hwloc 2 reads it as it is. Errors: InvalidArgument/MachineUnreadable, naming object, attribute and value.
[[nodiscard]] Result<std::string> hwloc2Xml(std::string_view xml);

// Without what names the host or its owner rather than the shape of the machine: host and process name, serial numbers, addresses.
[[nodiscard]] std::string withoutIdentity(std::string_view xml);

}  // namespace coterie::linux
