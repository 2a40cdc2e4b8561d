#include "admin/streams.h"

#include <utility>

namespace coterie::admin {

// A source's callback holds its stream, and the stream its source: one of them must let go.
void Streams::release(Stream& stream) {
  stream.timer.reset();
  stream.source.reset();
  stream.next = nullptr;
  stream.valid = nullptr;
}

Streams::~Streams() {
  while (!streams_.empty()) {
    const auto stream = streams_.front();
    streams_.pop_front();
    stream->open = false;
    stream->request->onClientGone([] {});
    stream->request->endStream();
    release(*stream);
  }
  for (const auto& stream : std::exchange(*closed_, {})) release(*stream);  // the loop may never run again
}

std::shared_ptr<Streams::Stream> Streams::open(const std::shared_ptr<http::RequestContext>& request, std::function<bool()> valid) {
  auto stream = std::make_shared<Stream>();
  stream->request = request;
  stream->valid = std::move(valid);
  streams_.push_back(stream);
  if (streams_.size() == 1) beatLater();
  http::Response head;
  head.contentType = "application/json";
  request->startStream(std::move(head));
  request->onClientGone([this, stream] { close(stream); });
  if (stream->valid) poll(stream);
  return stream;
}

void Streams::beatLater() {
  beat_ = loop_.after(kBeatInterval, [this] {
    for (const auto& stream : List(streams_)) push(stream, "\n");  // a push may end one
    if (!streams_.empty()) beatLater();
  });
}

void Streams::push(const std::shared_ptr<Stream>& stream, std::string_view lines) {
  if (!lines.empty() && check(stream) && !stream->request->write(lines)) close(stream);
}

// Open, and its client may still be told.
bool Streams::check(const std::shared_ptr<Stream>& stream) {
  if (stream->open && stream->valid && !stream->valid()) close(stream);
  return stream->open;
}

void Streams::close(const std::shared_ptr<Stream>& stream) {
  if (!std::exchange(stream->open, false)) return;
  streams_.remove(stream);
  stream->request->endStream();
  // We may be inside the source's own callback.
  closed_->push_back(stream);
  loop_.post([closed = closed_] {
    for (const auto& one : std::exchange(*closed, {})) release(*one);
  });
}

void Streams::follow(const std::shared_ptr<http::RequestContext>& request, std::function<std::string()> next, std::function<bool()> valid) {
  const auto stream = open(request, std::move(valid));
  stream->next = std::move(next);
  poll(stream);
}

void Streams::poll(const std::shared_ptr<Stream>& stream) {
  if (!check(stream)) return;
  if (stream->next) push(stream, stream->next());
  if (!stream->open) return;
  stream->timer = loop_.after(kFollowInterval, [this, weak = std::weak_ptr<Stream>(stream)] {
    if (const auto kept = weak.lock()) poll(kept);
  });
}

}  // namespace coterie::admin
