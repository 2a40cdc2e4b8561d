// Cursors over a message's bytes. Messages pass between processes of one machine, so integers are in native order.
// The writer stops at the buffer's end and the reader at the message's; both then say so by ok(), and the caller checks once, at the end.
// Thread-compatible.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace coterie::channel {

class ByteWriter {
 public:
  explicit ByteWriter(std::span<std::byte> buffer) : buffer_(buffer) {}
  template <typename T>
    requires std::is_integral_v<T>
  void put(T value) {
    write(&value, sizeof value);
  }
  void text(std::string_view value) {
    put(static_cast<std::uint32_t>(value.size()));
    write(value.data(), value.size());
  }
  void write(const void* data, std::size_t size) {
    if (size > buffer_.size() - used_) {
      ok_ = false;
      return;
    }
    if (size > 0) std::memcpy(buffer_.data() + used_, data, size);
    used_ += size;
  }
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] std::size_t size() const { return used_; }

 private:
  std::span<std::byte> buffer_;
  std::size_t used_{0};
  bool ok_{true};
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> message) : rest_(message) {}
  template <typename T>
    requires std::is_integral_v<T>
  [[nodiscard]] T get() {
    T value{};
    read(&value, sizeof value);
    return value;
  }
  // At most `limit` bytes; a longer text is a fault.
  [[nodiscard]] std::string text(std::size_t limit) {
    const auto length = get<std::uint32_t>();
    if (length > limit || length > rest_.size()) {
      fail();
      return {};
    }
    std::string value(reinterpret_cast<const char*>(rest_.data()), length);
    rest_ = rest_.subspan(length);
    return value;
  }
  void read(void* into, std::size_t size) {
    if (size > rest_.size()) {
      fail();
      return;
    }
    if (size > 0) std::memcpy(into, rest_.data(), size);
    rest_ = rest_.subspan(size);
  }
  void fail() {
    ok_ = false;
    rest_ = {};
  }
  // Every byte read and nothing beyond.
  [[nodiscard]] bool complete() const { return ok_ && rest_.empty(); }
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  std::span<const std::byte> rest_;
  bool ok_{true};
};

}  // namespace coterie::channel
