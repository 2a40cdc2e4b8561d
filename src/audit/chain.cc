#include "audit/chain.h"

#include <utility>

namespace coterie::audit {

bool ChainCheck::fail(std::string what) {
  fault_ = ChainFault{file_, line_, std::move(what)};
  return false;
}

void ChainCheck::startFile(std::string name) {
  if (cutOff_ > 0 && !fault_) fail("its last line is cut off, and another file follows");
  file_ = std::move(name);
  line_ = 0;
  cutOff_ = 0;
}

std::string ChainCheck::whyBeginsNot(const Line& line) const {
  const Begins& begins = *line.entry.begins;
  if (first_ == 0) return begins.file == 1 && (line.sequence != 1 || begins.after != noHash()) ? "the first file does not begin with line 1" : "";
  if (begins.file != begins_->file + 1)
    return "file " + std::to_string(begins.file) + " comes after file " + std::to_string(begins_->file) + ": files are missing, or in another order";
  if (begins.after != last_.hash) return "the file does not begin where the one before ends: lines are missing there, or were altered";
  return {};
}

std::string ChainCheck::whyNot(const Line& line, std::string_view text) const {
  if (line_ == 1 && !line.entry.begins) return "the line that begins a file is missing";
  if (line.entry.begins) {
    if (std::string why = whyBeginsNot(line); !why.empty()) return why;
  }
  if (first_ != 0 && line.sequence > last_.sequence + 1) {
    return line.sequence == last_.sequence + 2
               ? "line " + std::to_string(last_.sequence + 1) + " is missing before it"
               : "lines " + std::to_string(last_.sequence + 1) + " to " + std::to_string(line.sequence - 1) + " are missing before it";
  }
  if (first_ != 0 && line.sequence <= last_.sequence)
    return "line " + std::to_string(line.sequence) + " comes after line " + std::to_string(last_.sequence) + ": lines were moved, or put in";
  const std::string before = line.entry.begins ? line.entry.begins->after : last_.hash;
  if (hashAfter(before, text) != line.hash) return "its hash does not follow: this line was altered, or the one before it";
  return {};
}

bool ChainCheck::take(std::string_view text) {
  if (fault_) return false;
  ++line_;
  auto line = decode(text);
  if (!line.ok()) return fail("this is no line of an audit log: " + line.error().message);
  if (std::string why = whyNot(*line, text); !why.empty()) return fail(std::move(why));
  if (first_ == 0) first_ = line->sequence;
  if (line->entry.begins) begins_ = line->entry.begins;
  last_ = std::move(*line);
  ++lines_;
  return true;
}

bool ChainCheck::takeFile(std::string name, std::string_view bytes, const std::function<void(const Line&)>& each) {
  startFile(std::move(name));
  while (!fault_ && !bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    if (end == std::string_view::npos) {
      cutOff_ = bytes.size();
      break;
    }
    if (!take(bytes.substr(0, end))) return false;
    if (each) each(last_);
    bytes.remove_prefix(end + 1);
  }
  return !fault_;
}

}  // namespace coterie::audit
