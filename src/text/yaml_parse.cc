#include <algorithm>
#include <istream>
#include <sstream>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "text/text.h"
#include "text/tree_builder.h"
#include "text/yaml_scalar.h"

namespace coterie::text {

namespace {
// Thrown by the handler through yaml-cpp to end a parse; never leaves parseYaml.
struct Stop {};

constexpr std::string_view kOpenQuotation = "illegal document indicator in scalar";
constexpr std::string_view kOpenQuotationAtEnd = "illegal EOF in scalar";

// What yaml-cpp's terse messages mean for somebody who looks at that line.
std::string explain(const std::string& message) {
  if (message == "end of map not found" || message == "end of sequence not found" || message == "illegal map value") {
    return fmt::format("{}: wrong indentation, or a ':' inside unquoted text", message);
  }
  if (message == "end of map flow not found") return "a '{' is not closed";
  if (message == "end of sequence flow not found") return "a '[' is not closed";
  if (message == kOpenQuotation || message == kOpenQuotationAtEnd) return "a quotation mark is not closed";
  if (message == "the referenced anchor is not defined") return "aliases (*name) are not accepted: write the value out";
  if (message == "unknown token") return "a character that cannot start a value here: quote the text";
  return message;
}

class Handler final : public YAML::EventHandler {
 public:
  Handler(Documents& documents, const Limits& limits) : documents_(documents), limits_(limits), tree_(limits) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    tree_ = TreeBuilder(limits_);
    // yaml-cpp 0.7 gives empty documents for ever at a token that starts nothing, such as a lone ','.
    if (mark.pos == lastStart_) stop(mark, "a character that starts no value");
    lastStart_ = mark.pos;
  }
  void OnDocumentEnd() override {
    documents_.faults.insert(documents_.faults.end(), tree_.faults.begin(), tree_.faults.end());
    if (tree_.root && !tree_.root->isNull()) documents_.values.push_back(std::move(*tree_.root));
    tree_ = TreeBuilder(limits_);
  }
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuseAnchor(mark, anchor);
    if (tree_.wantsKey()) stop(mark, "a key is missing before ':'");
    add(Value(), mark);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { stop(mark, "aliases (*name) are not accepted: write the value out"); }
  void OnAnchor(const YAML::Mark& mark, const std::string&) override { stop(mark, "anchors (&name) are not accepted: write the value out"); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& text) override {
    refuseAnchor(mark, anchor);
    refuseTag(mark, tag);
    if (tree_.wantsKey()) return tree_.key(text, lineOf(mark));
    if (tag == "!") return add(Value(text), mark);
    PlainScalar plain = readPlainScalar(text);
    if (!plain.fault.empty()) tree_.faults.push_back({tree_.path(), lineOf(mark), fmt::format("{}: {}", text.substr(0, 60), plain.fault)});
    add(std::move(plain.value), mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open(Value::emptyList(), mark, tag, anchor);
  }
  void OnSequenceEnd() override { tree_.close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open(Value::emptyMap(), mark, tag, anchor);
  }
  void OnMapEnd() override { tree_.close(); }

  // What was found before the parse ended early.
  void abandon() { documents_.faults.insert(documents_.faults.end(), tree_.faults.begin(), tree_.faults.end()); }
  // Where the library gave up: in an open quotation it noticed at the end of the text, so the key before it says more.
  void giveUp(const YAML::Exception& exception) {
    abandon();
    const int noticed = exception.mark.is_null() ? 0 : lineOf(exception.mark);
    const bool open = exception.msg == kOpenQuotation || exception.msg == kOpenQuotationAtEnd;
    documents_.faults.push_back({tree_.path(), open && tree_.keyLine() > 0 ? tree_.keyLine() : noticed, explain(exception.msg)});
  }

 private:
  static int lineOf(const YAML::Mark& mark) { return mark.line + 1; }
  [[noreturn]] void stop(const YAML::Mark& mark, std::string message) {
    tree_.faults.push_back({tree_.path(), lineOf(mark), std::move(message)});
    throw Stop{};
  }
  void refuseAnchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0) stop(mark, "anchors (&name) are not accepted: write the value out");
  }
  void refuseTag(const YAML::Mark& mark, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!") stop(mark, fmt::format("tags (!{}) are not accepted", tag.substr(0, 60)));
  }
  void open(Value container, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    refuseAnchor(mark, anchor);
    refuseTag(mark, tag);
    if (tree_.wantsKey()) stop(mark, "a key must be text, not a map or list (a template's {{ }} left unfilled?)");
    if (!tree_.open(std::move(container), lineOf(mark))) throw Stop{};
  }
  void add(Value value, const YAML::Mark& mark) {
    if (!tree_.scalar(std::move(value), lineOf(mark))) throw Stop{};
  }

  Documents& documents_;
  Limits limits_;
  TreeBuilder tree_;
  int lastStart_{-1};
};

void splitLines(std::string_view text, const auto& visit) {
  int number = 1;
  for (std::size_t begin = 0; begin < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    visit(text.substr(begin, end - begin), number);
    begin = end + 1;
  }
}

// What must be refused before the library sees it.
Faults refuseBytes(std::string_view text) {
  if (const int line = firstBadUtf8Line(text); line > 0) return {{"", line, "not UTF-8: save the file as UTF-8"}};
  Faults faults;
  splitLines(text, [&](std::string_view line, int number) {
    for (const char c : line) {
      const auto byte = static_cast<unsigned char>(c);
      if ((byte < 0x20 && c != '\t' && c != '\r') || byte == 0x7f) {
        faults.push_back({"", number, fmt::format("control character 0x{:02x}", byte)});
        return;
      }
    }
    const std::size_t content = line.find_first_not_of(" \t");
    if (content == std::string_view::npos || line[content] == '#' || line[content] == '\r') return;
    if (line.substr(0, content).find('\t') != std::string_view::npos) faults.push_back({"", number, "a tab in the indentation: use spaces"});
  });
  return faults;
}
}  // namespace

std::string readUpToLimit(std::istream& stream, const Limits& limits) {
  constexpr std::size_t kPiece{64u << 10};
  const std::size_t most = limits.bytes + 1;
  std::string text;
  while (stream && text.size() < most) {
    const std::size_t had = text.size();
    text.resize(std::min(had + kPiece, most));
    stream.read(text.data() + had, static_cast<std::streamsize>(text.size() - had));
    text.resize(had + static_cast<std::size_t>(stream.gcount()));
  }
  return text;
}

// Not how many: of a text that was read up to the limit nobody knows.
Fault tooManyBytes(const Limits& limits) { return {"", 0, fmt::format("more than {} bytes in one text", limits.bytes)}; }

Documents parseYaml(std::string_view text, const Limits& limits) {
  Documents documents;
  if (text.size() > limits.bytes) {  // with its byte order mark: one that was read up to the limit must not pass as whole
    documents.faults.push_back(tooManyBytes(limits));
    return documents;
  }
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  documents.faults = refuseBytes(text);
  if (!documents.faults.empty()) return documents;
  Handler handler(documents, limits);
  try {
    // The end marker makes yaml-cpp 0.7 notice a quotation that is still open on the last line, which it would otherwise close itself.
    std::istringstream stream{std::string(text) + (text.ends_with('\n') || text.empty() ? "...\n" : "\n...\n")};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(handler)) {
    }
    return documents;
  } catch (const Stop&) {
    handler.abandon();
  } catch (const YAML::Exception& exception) {
    handler.giveUp(exception);
  } catch (const std::exception& exception) {
    documents.faults.push_back({"", 0, exception.what()});
  }
  documents.values.clear();
  return documents;
}

}  // namespace coterie::text
