#include "sqlite/rows.h"

#include <utility>

#include "text/text.h"

namespace coterie::sqlite {

namespace {
// FNV-1a over type, length and bytes of each cell: finds flipped and lost bytes, no defence against forgery.
std::int64_t checksum(const Row& row, std::size_t cells) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto mix = [&](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3; };
  const auto mixNumber = [&](std::uint64_t number) {
    for (int i = 0; i < 64; i += 8) mix(static_cast<unsigned char>(number >> i));
  };
  for (std::size_t i = 0; i < cells; ++i) {
    mix(static_cast<unsigned char>(row[i].index()));
    if (const auto* number = std::get_if<std::int64_t>(&row[i])) mixNumber(static_cast<std::uint64_t>(*number));
    if (const auto* text = std::get_if<std::string>(&row[i])) {
      mixNumber(text->size());
      for (const char c : *text) mix(static_cast<unsigned char>(c));
    }
  }
  return static_cast<std::int64_t>(hash);
}

void seal(Row& row) {
  const std::int64_t sum = checksum(row, row.size());
  row.emplace_back(sum);
}

bool isSealed(const Row& row, std::size_t columns) {
  if (row.size() != columns) return false;
  const auto* sum = std::get_if<std::int64_t>(&row.back());
  return sum != nullptr && *sum == checksum(row, columns - 1);
}

Error damaged(std::string_view what) { return {Code::Internal, "StoreCorrupt", "the checksum of " + std::string(what) + " does not hold"}; }

std::int64_t number(const Cell& cell) {
  const auto* value = std::get_if<std::int64_t>(&cell);
  return value != nullptr ? *value : 0;
}
std::string text(const Cell& cell) {
  const auto* value = std::get_if<std::string>(&cell);
  return value != nullptr ? *value : std::string();
}
// Limits wider than for what people write: the store must read whatever it wrote.
Result<Value> tree(const Cell& cell) { return text::parseJson(text(cell), {.bytes = 256u << 20, .depth = 1024, .values = 16u << 20}); }
}  // namespace

Row rowOf(const StoredObject& object) {
  Row row{object.key.kind,
          object.key.nameSpace,
          object.key.name,
          object.uid,
          static_cast<std::int64_t>(object.resourceVersion),
          object.generation,
          object.creationTimeMicros,
          object.deletionTimeMicros ? Cell(*object.deletionTimeMicros) : Cell(),
          text::printJson(object.labels),
          text::printJson(object.spec),
          text::printJson(object.status)};
  seal(row);
  return row;
}

Result<StoredObject> objectOf(const Row& row) {
  if (!isSealed(row, 12)) return damaged("an object");
  StoredObject object;
  object.key = {text(row[0]), text(row[1]), text(row[2])};
  object.uid = text(row[3]);
  object.resourceVersion = static_cast<std::uint64_t>(number(row[4]));
  object.generation = number(row[5]);
  object.creationTimeMicros = number(row[6]);
  if (!std::holds_alternative<std::monostate>(row[7])) object.deletionTimeMicros = number(row[7]);
  for (const auto& [cell, value] : {std::pair(8, &object.labels), std::pair(9, &object.spec), std::pair(10, &object.status)}) {
    Result<Value> parsed = tree(row[static_cast<std::size_t>(cell)]);
    if (!parsed.ok()) return damaged("an object");
    *value = std::move(*parsed);
  }
  return object;
}

Row rowOf(const Event& event) {
  Row row{static_cast<std::int64_t>(event.sequence),
          event.firstMicros,
          event.lastMicros,
          event.count,
          event.object.kind,
          event.object.nameSpace,
          event.object.name,
          event.reason,
          event.message,
          text::printJson(event.fields)};
  seal(row);
  return row;
}

Result<Event> eventOf(const Row& row) {
  if (!isSealed(row, 11)) return damaged("an event");
  Event event;
  event.sequence = static_cast<std::uint64_t>(number(row[0]));
  event.firstMicros = number(row[1]);
  event.lastMicros = number(row[2]);
  event.count = number(row[3]);
  event.object = {text(row[4]), text(row[5]), text(row[6])};
  event.reason = text(row[7]);
  event.message = text(row[8]);
  Result<Value> fields = tree(row[9]);
  if (!fields.ok()) return damaged("an event");
  event.fields = std::move(*fields);
  return event;
}

}  // namespace coterie::sqlite
