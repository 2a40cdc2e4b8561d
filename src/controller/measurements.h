// What models were measured to need and how fast they ran, kept in the store by checksum: kind ModelMeasurement, cluster-scoped, named by the file's
// sha256.
//
// Memory is written only when it grows by more than 5 % or a lower limit is proven (a probe's memory differs a little each time), so that starts cost
// no write. Losing it costs a cautious estimate. Thread rule: control loop.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "allocation/width.h"
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

  // How long a run takes by so many threads, under circumstances named by a text (the machine's shape, the inputs' shapes); nullptr: not measured.
  [[nodiscard]] const std::vector<allocation::RunTime>* curveOf(const std::string& sha256, const std::string& circumstances) const;
  [[nodiscard]] bool inPlace(const std::string& sha256, const std::string& circumstances) const;  // was that measured over a prepared form?
  // Of the circumstances of one model the last few are kept.
  void learnCurve(const std::string& sha256, const std::string& circumstances, std::vector<allocation::RunTime> curve, bool inPlace);

 private:
  struct Curve {
    std::string circumstances;
    std::vector<allocation::RunTime> runs;
    bool inPlace{false};
  };
  [[nodiscard]] const Curve* find(const std::string& sha256, const std::string& circumstances) const;
  void keep(const std::string& sha256);
  [[nodiscard]] static std::vector<Curve> curvesFrom(const Value& status);
  [[nodiscard]] static Value valueOf(const std::vector<Curve>& curves);

  ObjectStore& store_;
  std::map<std::string, Measurement> known_;
  std::map<std::string, std::vector<Curve>> curves_;  // the newest last
};

}  // namespace coterie::controller
