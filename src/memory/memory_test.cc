#include <gtest/gtest.h>

#include "memory/event_table.h"
#include "memory/memory_object_store.h"
#include "ports/object_store_contract.h"

namespace coterie::contract {
namespace {
const StoreUnderTest kMemory{"memory", [](EventLoop& loop) { return std::make_unique<memory::MemoryObjectStore>(loop); },
                             [](EventLoop& loop) { return std::make_unique<memory::MemoryEventLog>(loop.clock()); }};
}  // namespace
INSTANTIATE_TEST_SUITE_P(Store, ObjectStoreContract, ::testing::Values(kMemory), storeName);
INSTANTIATE_TEST_SUITE_P(Store, EventLogContract, ::testing::Values(kMemory), storeName);
}  // namespace coterie::contract
