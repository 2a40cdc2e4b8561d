#include "worker/prepared_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "process/prepared_file.h"

namespace coterie::worker {
namespace {

TEST(WorthSharing, RunsMayTakeATenthLonger) {
  struct Row {
    Nanos own;
    Nanos inPlace;
    bool worth;
  };
  for (const Row& row : {Row{Millis(100), Millis(90), true}, Row{Millis(100), Millis(110), true}, Row{Millis(100), Millis(111), false},
                         Row{Millis(10), Millis(24), false}, Row{Nanos(0), Nanos(0), true}, Row{Nanos(0), Nanos(1), false}}) {
    EXPECT_EQ(worthSharing(row.own, row.inPlace), row.worth) << row.own.count() << " " << row.inPlace.count();
  }
}

TEST(MapForm, TakesOnlyTheSizeThatWasAnnouncedAndDoesNotPreventTheSeal) {
  UniqueFd file = process::PreparedFile::create().value();
  ASSERT_EQ(::write(file.get(), "weights", 7), 7);
  EXPECT_EQ(mapForm(file.get(), 8).error().reason, "BadSetup");
  EXPECT_EQ(mapForm(file.get(), 0).error().reason, "BadSetup");
  EXPECT_EQ(mapForm(-1, 7).error().reason, "BadSetup");
  const auto mapped = mapForm(file.get(), 7);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(mapped->bytes().size(), 7U);
  EXPECT_NE(process::PreparedFile::seal(std::move(file)), nullptr);
}

}  // namespace
}  // namespace coterie::worker
