// What models were measured to need, kept in the store by checksum: kind ModelMeasurement, cluster-scoped, named by the file's sha256.
//
// Written only when it grows by more than 5 % or a lower limit is proven (a probe's memory differs a little each time), so that starts cost no write.
// Losing it costs a cautious estimate. Thread rule: control loop.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "controller/memory.h"
#include "ports/object_store.h"

namespace coterie::controller {

inline constexpr const char* kMeasurementKind = "ModelMeasurement";

class Measurements {
 public:
  explicit Measurements(ObjectStore& store) : store_(store) {}
  void load();
  [[nodiscard]] std::optional<Measurement> of(const std::string& sha256) const;
  void learn(const std::string& sha256, const Measurement& now);
  // It ended for lack of memory at this limit: half as much again.
  void learnOutOfMemory(const std::string& sha256, Bytes limit);

 private:
  void keep(const std::string& sha256, const Measurement& measurement);

  ObjectStore& store_;
  std::map<std::string, Measurement> known_;
};

}  // namespace coterie::controller
