#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "gateway/core.h"
#include "http/inflate.h"

namespace coterie::gateway {

namespace {

constexpr std::size_t kKeptBuffer = 16 * 1024;  // larger ones are given back when the request ends
constexpr std::size_t kInline = 64 * 1024;      // JSON up to this is read on the loop: a fraction of a millisecond
constexpr std::size_t kInlinePacked = 1024;     // compressed bodies up to this
constexpr std::size_t kLeastCell = 64;

Refused refused(const Error& error) {
  return {error, {}, error.code == Code::ResourceExhausted || error.code == Code::Unavailable ? std::optional<Nanos>(Seconds(1)) : std::nullopt, 0};
}

Refused tooLarge(const std::string& what, std::uint64_t size, std::uint64_t most, const std::string& fix) {
  return {
      {Code::TooLarge, "BodyTooLarge", what + " has " + std::to_string(size) + " bytes, more than the " + std::to_string(most) + " allowed" + fix},
      "bytes=" + std::to_string(most),
      {},
      0};
}

// Coterie-Timeout-Ms; nullopt: absent.
Result<std::optional<Millis>> timeoutHeader(const http::RequestHead& head) {
  const std::string_view text = headerOf(head, "Coterie-Timeout-Ms");
  if (text.empty()) return std::optional<Millis>{};
  std::int64_t millis = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), millis);
  if (fault != std::errc{} || end != text.data() + text.size() || millis < 1)
    return Error{Code::InvalidArgument, "InvalidTimeout", "Coterie-Timeout-Ms must be a whole number of milliseconds, at least 1"};
  return std::optional<Millis>(std::min<std::int64_t>(millis, 86'400'000));
}

}  // namespace

// --- Places ---

Inference& Gateway::Core::take() {
  if (freeInferences_.empty()) {
    inferences_.push_back(std::make_unique<Inference>());
    inferences_.back()->index = static_cast<std::uint32_t>(inferences_.size() - 1);
    return *inferences_.back();
  }
  Inference& inference = *inferences_[freeInferences_.back()];
  freeInferences_.pop_back();
  return inference;
}

Inference* Gateway::Core::at(Ticket ticket) {
  Inference& inference = *inferences_[ticket.index];
  return inference.generation == ticket.generation ? &inference : nullptr;
}

void Gateway::Core::release(Inference& inference) {
  unbuffer(inference);
  finished(inference);
  ++inference.generation;
  inference.stage = Stage::Free;
  inference.context.reset();
  inference.cell.reset();
  inference.inputs.clear();
  inference.parts.clear();
  inference.handle = {};
  inference.sequence.reset();
  inference.part.reset();
  if (inference.text.capacity() > kKeptBuffer) std::string().swap(inference.text);  // assignment would keep the memory, and a slot lives long
  Deployment* const deployment = std::exchange(inference.deployment, nullptr);
  inference.service.reset();
  freeInferences_.push_back(inference.index);
  if (--deployment->attached == 0 && deployment->retiring) finishRetired(*deployment);
}

// A tenant may take as many bytes as it leaves free (dynamic thresholds: Choudhury and Hahne 1998): n hoarders get 1/(n+1) of the bound each, and
// whoever comes next always finds as much.
std::int64_t Gateway::Core::roomInBuffers(const Tenant& tenant) const { return options_.maxBufferedBytes.value - bufferedBytes_ - tenant.buffered; }

Refused Gateway::Core::buffersFull() const {
  return {{Code::Unavailable, "BuffersFull",
           "the gateway holds too many bytes of this tenant's request bodies and unread answers; read the answers, or send fewer requests at a time"},
          "bytes=" + std::to_string(options_.maxBufferedBytes.value),
          Seconds(1),
          0};
}

// Of a body's bytes outside the cell: on the tenant's quota and on the gateway's bound.
std::optional<Refused> Gateway::Core::holdBody(Inference& inference, std::uint64_t bytes) {
  const auto more = static_cast<std::int64_t>(bytes);
  if (more > roomInBuffers(*inference.tenant)) return buffersFull();
  if (auto refusal = charge(inference, bytes)) return refusal;
  count(inference, more);
  return std::nullopt;
}

void Gateway::Core::dropBody(Inference& inference) {
  unchargeBody(inference);
  unbuffer(inference);
  if (inference.text.capacity() > kKeptBuffer) std::string().swap(inference.text);
}

// The most that a body of this request may still grow by.
std::uint64_t Gateway::Core::roomForBody(const Inference& inference) const {
  const Tenant& tenant = *inference.tenant;
  std::int64_t room = std::min(static_cast<std::int64_t>(options_.maxBodyBytes), roomInBuffers(tenant));
  for (const tenancy::RequestLimiter* limits : {&tenant.limits, static_cast<const tenancy::RequestLimiter*>(inference.atService)}) {
    if (const auto left = limits->roomForBytes()) room = std::min(room, left->value);
  }
  return static_cast<std::uint64_t>(std::max<std::int64_t>(room, 0));
}

void Gateway::Core::count(Inference& inference, std::int64_t bytes) {
  inference.buffered += bytes;
  inference.tenant->buffered += bytes;
  bufferedBytes_ += bytes;
}

bool Gateway::Core::buffer(Inference& inference, std::uint64_t bytes) {
  if (static_cast<std::int64_t>(bytes) > roomInBuffers(*inference.tenant)) return refuse(inference, buffersFull()), false;
  count(inference, static_cast<std::int64_t>(bytes));
  return true;
}

void Gateway::Core::unbuffer(Inference& inference) { giveBack(*inference.tenant, std::exchange(inference.buffered, 0)); }

void Gateway::Core::giveBack(Tenant& tenant, std::int64_t bytes) {
  tenant.buffered -= bytes;
  bufferedBytes_ -= bytes;
}

// --- From the head to the queue ---

void Gateway::Core::startInfer(Call& call, const std::shared_ptr<Service>& service) {
  ++service->callers[call.tenant->id].requests.started;
  Deployment* const deployment = service->current;
  const http::RequestHead& head = call.context->head();
  const auto timeout = timeoutHeader(head);
  std::optional<Refused> refusal;
  if (draining_)
    refusal = notReady("Draining", "the server is shutting down");
  else if (deployment == nullptr)
    refusal = notReady(service->settings.notReadyReason,
                       service->settings.notReadyMessage.empty() ? "the model is not loaded yet" : service->settings.notReadyMessage);
  else if (!timeout)
    refusal = refused(timeout.error());
  else if (head.contentLength > options_.maxBodyBytes)
    refusal = tooLarge("the body", head.contentLength, options_.maxBodyBytes, "");
  else if (roomInBuffers(*call.tenant) <= 0)
    refusal = buffersFull();  // its answer would be refused after all the work
  if (refusal && deployment == nullptr && service->settings.noInstanceBefore > call.now)
    refusal->retryAfter = (service->settings.noInstanceBefore - call.now) * 5 / 4;
  const auto deadline = [&] { return call.now + (*timeout ? std::min<Nanos>(**timeout, service->settings.deadline) : service->settings.deadline); };
  // What will surely be refused is told so before its body is read. A waiting room takes whoever comes.
  if (!refusal && deployment->hasOpenLane()) refusal = foresee(*deployment, *call.tenant, deadline(), call.now);
  if (!refusal) refusal = mayStart(*call.tenant, *service, call.now);
  if (refusal) {
    service->callers[call.tenant->id].requests.answer(refusal->httpStatus(), refusal->error.reason);
    return refuse(call, *refusal, service.get());
  }
  Inference& inference = take();
  inference.stage = Stage::Reading;
  inference.context = call.context;
  inference.tenant = call.tenant;
  inference.service = service;
  inference.atService = &limiterAt(*service, *call.tenant);
  inference.deployment = deployment;
  ++deployment->attached;
  inference.model = std::move(call.target.model);
  inference.requestId = std::move(call.requestId);
  inference.keyId = std::move(call.keyId);
  inference.peer = call.context->peer();
  inference.bytesIn = head.contentLength;
  inference.queuedAt = inference.dispatchedAt = Instant{};
  inference.arrived = call.now;
  inference.deadline = deadline();
  inference.answered = inference.retried = inference.helping = inference.packed = false;
  const bool plain =
      !head.chunked && (headerOf(head, "Content-Encoding").empty() || http::equalsIgnoreCase(headerOf(head, "Content-Encoding"), "identity"));
  if (plain)
    readPlain(inference);
  else
    readPacked(inference);
}

std::optional<Refused> Gateway::Core::foresee(Deployment& deployment, const Tenant& tenant, Instant deadline, Instant when) {
  const auto refusal = deployment.station.foresee(requestTo(deployment, tenant, deadline), when);
  return refusal ? std::optional(refusedBy(*refusal)) : std::nullopt;
}

// The client's connection broke, or it was too slow: the server has dealt with it.
bool Gateway::Core::checkClient(Inference& inference, const Status& read) {
  if (read.ok()) return true;
  end(inference, httpStatus(read.error().code), read.error().reason);
  return false;
}

// JSON into our buffer, tensors then from the socket into the cell.
void Gateway::Core::readPlain(Inference& inference) {
  const std::uint64_t bodyLength = inference.context->bodyRemaining();
  const auto headerLength = oip::parseHeaderLength(headerOf(inference.context->head(), "Inference-Header-Content-Length"), bodyLength);
  if (!headerLength) return refuse(inference, refused(headerLength.error()));
  if (*headerLength == 0U) {
    if (takeRequest(inference, oip::rawInferRequest(inference.deployment->backend.signature(), bodyLength))) readTensors(inference);
    return;
  }
  const std::uint64_t jsonLength = headerLength->value_or(bodyLength);
  if (jsonLength > options_.maxJsonBytes)
    return refuse(inference, tooLarge("the JSON", jsonLength, options_.maxJsonBytes, "; send tensors as binary data"));
  if (const auto refusal = holdBody(inference, jsonLength)) return refuse(inference, *refusal);
  inference.text.resize(jsonLength);
  const std::span<std::byte> part = std::as_writable_bytes(std::span(inference.text));
  const bool hasHeader = headerLength->has_value();
  const Ticket ticket = ticketOf(inference);
  inference.context->readInto({&part, 1}, [this, ticket, hasHeader, binary = bodyLength - jsonLength](const Status& read) {
    Inference* const reading = at(ticket);
    if (reading != nullptr && checkClient(*reading, read)) parse(*reading, hasHeader ? std::optional(binary) : std::nullopt);
  });
}

void Gateway::Core::parse(Inference& inference, std::optional<std::uint64_t> binaryLength) {
  const ModelSignature& signature = inference.deployment->backend.signature();
  const std::string_view json = std::string_view(inference.text).substr(0, inference.text.size() - (inference.packed ? binaryLength.value_or(0) : 0));
  const auto then = [](Core& core, Inference& parsed, Result<oip::InferRequest> request) {
    if (!core.takeRequest(parsed, std::move(request))) return;
    if (parsed.packed)
      core.copyTensors(parsed);
    else
      core.readTensors(parsed);
  };
  if (json.size() <= kInline) return then(*this, inference, oip::parseInferRequest(json, signature, binaryLength));
  aside<Result<oip::InferRequest>>(
      inference, [json, &signature, binaryLength] { return oip::parseInferRequest(json, signature, binaryLength); }, then);
}

// Checks that the request may have memory, and takes a cell for it.
bool Gateway::Core::takeRequest(Inference& inference, Result<oip::InferRequest> request) {
  if (!request) return refuse(inference, refused(request.error())), false;
  inference.request = std::move(*request);
  if (inference.request.timeout) inference.deadline = std::min(inference.deadline, inference.arrived + Nanos(*inference.request.timeout));
  const std::uint64_t bytes = inference.request.cellBytes;
  const auto most = static_cast<std::uint64_t>(inference.service->settings.maxQueuedBytes.value);
  if (most > 0 && bytes > most) return refuse(inference, tooLarge("the input", bytes, most, " to wait for this service")), false;
  if (const auto refusal = charge(inference, bytes)) return refuse(inference, *refusal), false;
  auto cell = inference.deployment->backend.allocate(std::max<std::size_t>(inference.request.cellBytes, kLeastCell));
  if (!cell) return refuse(inference, refused(cell.error())), false;
  inference.cell = std::move(*cell);
  inference.elements = 0;
  for (const oip::RequestInput& input : inference.request.inputs) {
    inference.elements += static_cast<std::uint64_t>(elementCount(input.shape).value_or(0));
    inference.inputs.push_back({input.input, input.shape, input.offset, input.length});
  }
  return true;
}

void Gateway::Core::readTensors(Inference& inference) {
  const std::span<std::byte> cell = inference.cell->bytes();
  for (const oip::RequestInput& input : inference.request.inputs) {
    if (input.source == oip::Source::Json || input.length == 0) continue;
    const std::size_t prefix = input.source == oip::Source::RawElement ? 4 : 0;
    if (input.length > prefix) inference.parts.push_back(cell.subspan(input.offset + prefix, input.length - prefix));
  }
  if (inference.parts.empty()) return bodyComplete(inference);
  const Ticket ticket = ticketOf(inference);
  inference.context->readInto(inference.parts, [this, ticket](const Status& read) {
    Inference* const reading = at(ticket);
    if (reading != nullptr && checkClient(*reading, read)) bodyComplete(*reading);
  });
}

void Gateway::Core::bodyComplete(Inference& inference) {
  if (inference.text.size() <= kInline)
    return onFilled(inference, oip::fillJson(inference.request, inference.deployment->backend.signature(), inference.cell->bytes()));
  aside<Status>(
      inference,
      [&request = inference.request, &signature = inference.deployment->backend.signature(), cell = inference.cell->bytes()] {
        return oip::fillJson(request, signature, cell);
      },
      // aside() takes a plain function of this form. NOLINTNEXTLINE(performance-unnecessary-value-param)
      [](Core& core, Inference& filled, Status status) { core.onFilled(filled, status); });
}

void Gateway::Core::onFilled(Inference& inference, const Status& filled) {
  const Status ok = filled.ok() ? oip::checkBinary(inference.request, inference.deployment->backend.signature(), inference.cell->bytes()) : filled;
  dropBody(inference);
  if (!ok) return refuse(inference, refused(ok.error()));
  const Ticket ticket = ticketOf(inference);
  inference.context->onClientGone([this, ticket] {
    Inference* const left = at(ticket);
    if (left != nullptr) clientGone(*left);
  });
  if (at(ticket) != nullptr) admit(inference);
}

// Chunked or compressed bodies: the length is not known beforehand, so they are copied once more. What they hold is counted as it grows.
void Gateway::Core::readPacked(Inference& inference) {
  const http::RequestHead& head = inference.context->head();
  const Ticket ticket = ticketOf(inference);
  auto encoding = std::string(headerOf(head, "Content-Encoding"));
  auto headerLength = std::string(headerOf(head, "Inference-Header-Content-Length"));
  const auto refusal = std::make_shared<std::optional<Refused>>();
  const auto mayHold = [this, ticket, refusal](std::uint64_t total) -> Status {
    Inference* const reading = at(ticket);
    if (reading == nullptr) return Error{Code::Cancelled, "Answered", "the request was answered meanwhile"};
    *refusal = holdBody(*reading, total - static_cast<std::uint64_t>(reading->buffered));
    return *refusal ? Status((*refusal)->error) : Status();
  };
  inference.context->readCounted(
      options_.maxBodyBytes, mayHold,
      [this, ticket, refusal, encoding = std::move(encoding), headerLength = std::move(headerLength)](Result<std::string> body) {
        Inference* const reading = at(ticket);
        if (reading == nullptr) return;
        if (*refusal) return refuse(*reading, **refusal);
        if (body.ok()) return onWholeBody(*reading, std::move(*body), encoding, headerLength);
        if (body.error().code == Code::Cancelled) return end(*reading, httpStatus(body.error().code), body.error().reason);
        refuse(*reading, refused(body.error()));
      });
}

void Gateway::Core::onWholeBody(Inference& inference, std::string body, const std::string& encoding, const std::string& headerLength) {
  inference.unpackLimit = roomForBody(inference);
  inference.bytesIn = body.size();
  const auto unpack = [most = inference.unpackLimit, encoding](const std::string& packed) { return http::inflateBody(packed, encoding, most); };
  inference.lengthHeader = headerLength;
  const auto then = [](Core& core, Inference& unpacked, Result<std::string> plain) {
    if (!plain && plain.error().code == Code::TooLarge) return core.refuse(unpacked, core.unpackedTooLarge(unpacked));
    if (!plain) return core.refuse(unpacked, refused(plain.error()));
    core.dropBody(unpacked);
    if (const auto refusal = core.holdBody(unpacked, plain->size())) return core.refuse(unpacked, *refusal);
    unpacked.text = std::move(*plain);
    core.onUnpacked(unpacked);
  };
  const bool packed = !encoding.empty() && !http::equalsIgnoreCase(encoding, "identity");
  if (!packed) return then(*this, inference, std::move(body));
  if (body.size() <= kInlinePacked) return then(*this, inference, unpack(body));
  aside<Result<std::string>>(inference, [unpack, packedBody = std::make_shared<std::string>(std::move(body))] { return unpack(*packedBody); }, then);
}

// It was unpacked only as far as there was room: which bound was that?
Refused Gateway::Core::unpackedTooLarge(Inference& inference) {
  if (inference.unpackLimit < options_.maxBodyBytes) return holdBody(inference, inference.unpackLimit + 1).value_or(buffersFull());
  return refused({Code::TooLarge, "BodyTooLarge", "the body is larger than " + std::to_string(options_.maxBodyBytes) + " bytes when decompressed"});
}

void Gateway::Core::onUnpacked(Inference& inference) {
  const auto length = oip::parseHeaderLength(inference.lengthHeader, inference.text.size());
  if (!length) return refuse(inference, refused(length.error()));
  const std::size_t jsonLength = length->value_or(inference.text.size());
  if (jsonLength > options_.maxJsonBytes)
    return refuse(inference, tooLarge("the JSON", jsonLength, options_.maxJsonBytes, "; send tensors as binary data"));
  inference.packed = true;
  if (*length == 0U) {
    if (takeRequest(inference, oip::rawInferRequest(inference.deployment->backend.signature(), inference.text.size()))) copyTensors(inference);
    return;
  }
  parse(inference, length->has_value() ? std::optional<std::uint64_t>(inference.text.size() - jsonLength) : std::nullopt);
}

// The tensors of a body that was read as a whole.
void Gateway::Core::copyTensors(Inference& inference) {
  std::uint64_t binary = 0;
  for (const oip::RequestInput& input : inference.request.inputs)
    binary += input.source == oip::Source::Json ? 0 : input.length - (input.source == oip::Source::RawElement ? 4 : 0);
  std::string_view rest = std::string_view(inference.text).substr(inference.text.size() - binary);
  const std::span<std::byte> cell = inference.cell->bytes();
  for (const oip::RequestInput& input : inference.request.inputs) {
    if (input.source == oip::Source::Json) continue;
    const std::size_t prefix = input.source == oip::Source::RawElement ? 4 : 0;
    const std::size_t wanted = input.length - prefix;
    if (wanted > 0) std::memcpy(cell.data() + input.offset + prefix, rest.data(), wanted);
    rest.remove_prefix(wanted);
  }
  bodyComplete(inference);
}

}  // namespace coterie::gateway
