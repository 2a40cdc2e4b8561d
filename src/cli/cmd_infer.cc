// infer: one request to a service, as a client of the gateway would send it.
//
// The key is that of --key-file, else $COTERIE_KEY, else one made for this request and revoked after it (who may use the admin socket may do that
// anyway).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <ostream>

#include "admin/reports.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/references.h"
#include "cli/table.h"
#include "http/client.h"
#include "text/text.h"

namespace coterie::cli {
namespace {

using admin::textAt;

struct InferOptions {
  std::string service;
  std::string nameSpace;
  std::string file;
  std::vector<std::string> inputs;
  std::string output{"table"};
};

struct Endpoint {
  std::string address;
  std::uint16_t port{0};
};

// "http://127.0.0.1:8000", "http://[::1]:8000"
std::optional<Endpoint> parseUrl(std::string_view url) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) return std::nullopt;
  url.remove_prefix(kScheme.size());
  url = url.substr(0, url.find('/'));
  const std::size_t colon = url.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  Endpoint endpoint;
  std::string_view address = url.substr(0, colon);
  if (address.starts_with('[') && address.ends_with(']')) address = address.substr(1, address.size() - 2);
  endpoint.address = address;
  const std::string_view port = url.substr(colon + 1);
  if (std::from_chars(port.data(), port.data() + port.size(), endpoint.port).ptr != port.data() + port.size()) return std::nullopt;
  return endpoint;
}

// Shape of nested lists, by their first elements; the server checks the rest.
Value shapeOf(const Value& data) {
  Value shape = Value::emptyList();
  for (const Value* level = &data; level->asList() != nullptr; level = &level->asList()->front()) {
    shape.push(static_cast<std::int64_t>(level->asList()->size()));
    if (level->asList()->empty()) break;
  }
  return shape;
}

// {"inputs": [...]} of NAME=JSON words; names and types as the model has them.
Result<Value> buildBody(const std::vector<std::string>& words, const Value& model) {
  const Value* known = model.find("inputs");
  const Value::List none;
  const Value::List& inputs = known == nullptr || known->asList() == nullptr ? none : *known->asList();
  std::string names;
  for (const Value& input : inputs) names += (names.empty() ? "" : ", ") + textAt(input, "name");
  Value list = Value::emptyList();
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    const bool named = equals != std::string::npos && word[0] != '[' && word[0] != '"';
    if (!named && inputs.size() != 1)
      return Error{Code::InvalidArgument, "BadInput", "the model has several inputs (" + names + "): write --input NAME=JSON"};
    const std::string name = named ? word.substr(0, equals) : textAt(inputs.front(), "name");
    const auto input = std::find_if(inputs.begin(), inputs.end(), [&](const Value& each) { return textAt(each, "name") == name; });
    if (input == inputs.end()) return Error{Code::InvalidArgument, "BadInput", "the model has no input " + name + "; it has " + names};
    const auto data = text::parseJson(named ? std::string_view(word).substr(equals + 1) : std::string_view(word));
    if (!data.ok()) return Error{Code::InvalidArgument, "BadInput", "input " + name + ": " + data.error().message};
    Value flat = Value::emptyList();
    if (data->asList() == nullptr) flat.push(*data);
    Value item = Value::emptyMap();
    item.set("name", name);
    item.set("shape", shapeOf(*data));
    item.set("datatype", textAt(*input, "datatype"));
    if (data->asList() == nullptr)
      item.set("data", std::move(flat));
    else
      item.set("data", *data);
    list.push(std::move(item));
  }
  Value body = Value::emptyMap();
  body.set("inputs", std::move(list));
  return body;
}

// The first values of a tensor, on one line.
std::string dataText(const Value& output) {
  constexpr std::size_t kShown = 8;
  const Value* data = output.find("data");
  if (data == nullptr || data->asList() == nullptr) return "-";
  std::string out;
  const auto& list = *data->asList();
  for (std::size_t i = 0; i < std::min(list.size(), kShown); ++i) out += (i == 0 ? "" : " ") + text::printJson(list[i]);
  return list.size() > kShown ? out + fmt::format(" ... ({} values)", list.size()) : out;
}

struct BorrowedKey {
  std::string key;
  std::string id;  // to revoke; empty: the user's own
};

Result<BorrowedKey> keyFor(Context& context, const std::string& nameSpace) {
  if (!context.key.empty()) return BorrowedKey{context.key, {}};
  if (const auto fromEnvironment = context.terminal.environment("COTERIE_KEY"); fromEnvironment && !fromEnvironment->empty())
    return BorrowedKey{*fromEnvironment, {}};
  const auto tenants = context.server().get(collectionPath(kTenantKind, std::nullopt));
  if (!tenants.ok()) return tenants.error();
  for (const Value& tenant : *tenants->find("items")->asList()) {
    const Value* spec = tenant.find("spec");
    const Value* namespaces = spec == nullptr ? nullptr : spec->find("namespaces");
    if (namespaces == nullptr || namespaces->asList() == nullptr) continue;
    if (std::find(namespaces->asList()->begin(), namespaces->asList()->end(), Value(nameSpace)) == namespaces->asList()->end()) continue;
    Value body = Value::emptyMap();
    body.set("tenant", metadataText(tenant, "name"));
    body.set("label", "coterie infer");
    body.set("lifetimeSeconds", 300);
    const auto key = context.server().call("POST", "/admin/v1/keys", body);
    if (!key.ok()) return key.error();
    return BorrowedKey{textAt(*key, "key"), textAt(*key, "id")};
  }
  return Error{Code::NotFound, "UnknownNamespace", "no tenant owns namespace " + nameSpace};
}

Result<std::string> bodyText(Context& context, const InferOptions& options, http::Client& client, const std::string& path,
                             const std::string& authorization) {
  if (!options.file.empty()) {
    if (options.file == "-") return std::string{std::istreambuf_iterator<char>(context.terminal.in), std::istreambuf_iterator<char>()};
    std::ifstream file(options.file, std::ios::binary);
    if (!file) return Error{Code::InvalidArgument, "NoSuchFile", options.file + " cannot be read"};
    return std::string{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  const auto described = client.request({"GET", path, {{"Authorization", authorization}}, {}});
  if (!described.ok()) return described.error();
  if (described->status != 200) return errorOf(*described);
  const auto model = text::parseJson(described->body);
  if (!model.ok()) return model.error();
  const auto body = buildBody(options.inputs, *model);
  if (!body.ok()) return body.error();
  return text::printJson(*body);
}

int send(Context& context, const InferOptions& options, http::Client& client, const std::string& path, const std::string& key) {
  const std::string authorization = "Bearer " + key;
  const auto body = bodyText(context, options, client, path, authorization);
  if (!body.ok()) return context.fail(body.error());
  const auto start = std::chrono::steady_clock::now();
  const auto response = client.request({"POST", path + "/infer", {{"Authorization", authorization}, {"Content-Type", "application/json"}}, *body});
  const Nanos took = std::chrono::steady_clock::now() - start;
  if (!response.ok()) return context.fail(response.error());
  if (response->status != 200) return context.fail(errorOf(*response));
  std::ostream& out = context.terminal.out;
  if (options.output == "json") return out << response->body << "\n", kOk;
  const auto answer = text::parseJson(response->body);
  if (!answer.ok()) return context.fail(answer.error());
  Table table({"OUTPUT", "DATATYPE", "SHAPE", "DATA"});
  if (const Value* outputs = answer->find("outputs"); outputs != nullptr && outputs->asList() != nullptr) {
    for (const Value& output : *outputs->asList()) {
      table.add({textAt(output, "name"), textAt(output, "datatype"), output.find("shape") == nullptr ? "-" : text::printJson(*output.find("shape")),
                 dataText(output)});
    }
  }
  table.print(out, context.terminal.colors);
  if (context.terminal.interactive) context.terminal.err << "answered in " << latencyText(took) << "\n";
  return kOk;
}

struct Model {
  std::string nameSpace;
  std::string name;  // as the gateway knows it
};

// A key need not be one that may read services: the gateway finds the model by the name that was given.
Result<Model> modelOf(Context& context, const Reference& reference) {
  if (!context.key.empty()) return Model{"", reference.nameSpace ? *reference.nameSpace + "." + reference.name : reference.name};
  const auto object = fetch(context, reference);
  if (!object.ok()) return object.error();
  const std::string nameSpace = metadataText(*object, "namespace");
  return Model{nameSpace, nameSpace + "." + metadataText(*object, "name")};
}

int infer(Context& context, const InferOptions& options) {
  if (options.file.empty() == options.inputs.empty()) return context.usage("give the request: either -f FILE or --input NAME=JSON");
  const auto reference = parseReference(options.service, kModelServiceKind, namespaceOf(context, options.nameSpace));
  if (!reference.ok()) return context.usage(reference.error().message);
  const auto model = modelOf(context, *reference);
  if (!model.ok()) return context.fail(model.error());
  const auto version = context.server().get("/admin/v1/version");
  if (!version.ok()) return context.fail(version.error());
  const auto endpoint = parseUrl(textAt(*version, "gatewayUrl"));
  if (!endpoint) return context.fail({Code::Unavailable, "NoGateway", "the server has no gateway that this command can reach"});
  const auto key = keyFor(context, model->nameSpace);
  if (!key.ok()) return context.fail(key.error());
  http::Client client = http::Client::tcp(endpoint->address, endpoint->port);
  const int code = send(context, options, client, "/v2/models/" + percentEncode(model->name), key->key);
  if (!key->id.empty()) (void)context.server().call("DELETE", "/admin/v1/keys/" + percentEncode(key->id), std::nullopt);
  return code;
}

}  // namespace

Command makeInfer() {
  const auto options = std::make_shared<InferOptions>();
  return {"infer",
          "Insight",
          "Send one inference request (key: --key-file, else $COTERIE_KEY, else one for this request only)",
          "coterie infer file-type -f examples/quickstart/bodies/file-type.json\n  coterie infer double --input 'x=[[1, 2, 3]]'",
          {{"SERVICE", "which service", &options->service, {}, Names::Services, true},
           {"-f,--filename", "the request's JSON body, or - for standard input", &options->file, {}, Names::Files, false},
           {"--input", "NAME=JSON, e.g. x=[[1,2]]; shape and type follow; may be repeated", &options->inputs, {}, Names::None, false},
           namespaceOption(&options->nameSpace),
           outputOption(&options->output, {"table", "json"})},
          {},
          [options](Context& context) { return infer(context, *options); }};
}

}  // namespace coterie::cli
