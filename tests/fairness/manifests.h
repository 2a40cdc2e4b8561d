// Objects and requests of these benches, and how long their models take here.
#pragma once

#include <string>

#include "bench_server.h"
#include "testing/http_load.h"

namespace coterie::fairness {

[[nodiscard]] std::string tenantText(const std::string& name, int weight = 100);
// more: further fields of the spec, each after a comma.
[[nodiscard]] std::string serviceText(const std::string& path, const std::string& model, const std::string& more = "");

// A binary tensor of so many rows of 64 numbers to slow_xN, rows_xN, mean; headers: further ones, each with its line's end.
[[nodiscard]] std::string request(const std::string& model, const std::string& key, int rows, const std::string& headers = "", int columns = 64);

// Seconds of a run alone, over one connection.
[[nodiscard]] double solo(testing::HttpLoad& load, const BenchServer& server, const std::string& request);
// Of a link of slow_xN.
[[nodiscard]] double linkSeconds(testing::HttpLoad& load);

}  // namespace coterie::fairness
