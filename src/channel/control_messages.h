// What passes between the supervisor and a worker over its control socket (SOCK_SEQPACKET, fd 3 in the worker).
//
// Order: Launch (sandbox and paths) ->; <- Sandbox (what the machine lacks); [the launcher becomes the worker by exec]; Setup (limits, with the
// signal socket, the arenas, the memory file of a prepared model where there is one, and the first lanes' sockets as descriptors) ->; MoreLanes*
// (further lanes' sockets) ->; <- Progress*; <- Ready or Failed; Stop ->. A worker's messages are untrusted: every count and text is bounded here,
// and a signature is taken only if it is well formed. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/tensor.h"
#include "ports/container_runtime.h"

namespace coterie::channel {

inline constexpr std::size_t kMaxControlMessage = 128 * 1024;
inline constexpr std::size_t kMaxFdsPerMessage = 64;
inline constexpr int kControlFd = 3;

struct LaunchMessage {
  std::string workerPath;  // what the launcher becomes
  std::vector<std::string> workerArguments;
  std::string modelPath;
  std::string modelRoot;        // the model is opened beneath it; empty: anywhere
  std::string runtimePath;      // ONNX Runtime's shared library
  std::int32_t parent{0};       // pid of the supervisor: if it is not the parent, it has died
  std::uint32_t uid{0};         // 0: stay who we are
  std::int64_t dataLimit{0};    // RLIMIT_DATA in bytes, 0: none
  std::int32_t threadLimit{0};  // RLIMIT_NPROC, 0: none
  std::int32_t fileLimit{0};    // RLIMIT_NOFILE
  bool sandbox{true};           // off only for sanitizer builds and debuggers
  bool network{false};          // own network namespace wanted
  std::int64_t writeLimit{0};   // bytes that it may write into memory files it is given; 0: it writes no file
};

struct SetupMessage {
  std::string modelName;  // for messages: the file's name
  std::string sha256;
  std::int32_t ownLanes{1};
  std::int32_t loanLanes{0};
  std::int32_t width{1};
  bool spin{false};
  std::uint64_t requestBytes{0};  // size of the request arena
  std::uint64_t responseBytes{0};
  std::uint64_t memoryLimit{0};  // 0: none
  std::vector<ProbeShape> probe;
  std::vector<std::int32_t> measureWidths;  // to be timed before the model is loaded to serve
  std::int64_t measureNanos{0};             // for all of them together
  bool prepare{false};                      // makes a prepared form in the memory file
  bool judge{true};                         // ... and times whether it is worth it
  std::uint64_t preparedBytes{0};           // > 0: the memory file holds one, to be loaded in place of the model's file
  [[nodiscard]] bool bringsMemoryFile() const { return prepare || preparedBytes > 0; }
};

struct ReadyMessage {
  ModelSignature signature;
  std::vector<WidthSpeed> speeds;
  std::vector<std::int32_t> ownLaneThreads;
  std::vector<std::int32_t> loanLaneThreads;
  std::vector<std::int32_t> serviceThreads;
  std::int64_t steadyBytes{0};
  std::int64_t peakBytes{0};
  bool prepared{false};  // the memory file holds a form that is worth it
};

struct FailedMessage {
  Error error;  // why the model cannot be served
};

enum class ControlKind : std::uint16_t { Launch = 1, Sandbox, Setup, MoreLanes, Progress, Ready, Failed, Stop };

// The kind of a message, if it has one.
[[nodiscard]] std::optional<ControlKind> kindOf(std::span<const std::byte> bytes);

[[nodiscard]] std::vector<std::byte> encode(const LaunchMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const SetupMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const ReadyMessage& message);
[[nodiscard]] std::vector<std::byte> encodeSandbox(const std::vector<std::string>& missing);
[[nodiscard]] std::vector<std::byte> encodeProgress(int percent);
[[nodiscard]] std::vector<std::byte> encodeFailed(const Error& error);
[[nodiscard]] std::vector<std::byte> encodePlain(ControlKind kind);  // MoreLanes, Stop

// InvalidArgument/Malformed unless the bytes are one whole message of that kind within its bounds.
[[nodiscard]] Result<LaunchMessage> decodeLaunch(std::span<const std::byte> bytes);
[[nodiscard]] Result<SetupMessage> decodeSetup(std::span<const std::byte> bytes);
[[nodiscard]] Result<ReadyMessage> decodeReady(std::span<const std::byte> bytes);
[[nodiscard]] Result<std::vector<std::string>> decodeSandbox(std::span<const std::byte> bytes);
[[nodiscard]] Result<int> decodeProgress(std::span<const std::byte> bytes);
[[nodiscard]] Result<FailedMessage> decodeFailed(std::span<const std::byte> bytes);

// Text from a worker made fit for logs and people: control characters become '?', and it is cut at `limit` bytes.
[[nodiscard]] std::string printable(std::string_view text, std::size_t limit);

}  // namespace coterie::channel
