#include "admin/admission.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "objects/names.h"
#include "tenancy/quota.h"

namespace coterie::admin {
namespace {

struct NamedTenant {
  TenantName name;
  TenantSpec spec;
};

Result<std::vector<NamedTenant>> tenants(const ObjectStore& store) {
  auto list = store.list(std::string(kTenantKind), std::nullopt);
  if (!list.ok()) return list.error();
  std::vector<NamedTenant> out;
  for (const StoredObject& object : list->objects) {
    Faults faults;
    // A spec in the store passed its check when it was written.
    if (auto spec = objects::decodeTenantSpec(object.spec, faults)) out.push_back({TenantName(object.key.name), std::move(*spec)});
  }
  return out;
}

bool owns(const TenantSpec& spec, const std::string& nameSpace) {
  return std::find(spec.namespaces.begin(), spec.namespaces.end(), nameSpace) != spec.namespaces.end();
}

Result<std::size_t> servicesIn(const std::string& nameSpace, const ObjectStore& store) {
  const auto list = store.list(std::string(kModelServiceKind), nameSpace);
  if (!list.ok()) return list.error();
  return list->objects.size();
}

std::string count(std::size_t number) { return std::to_string(number) + (number == 1 ? " service" : " services"); }

Status admitTenant(const Metadata& metadata, const TenantSpec& spec, const ObjectStore& store) {
  const auto known = tenants(store);
  if (!known.ok()) return known.error();
  for (const NamedTenant& other : *known) {
    if (other.name.value != metadata.name) {
      for (const std::string& nameSpace : spec.namespaces) {
        if (owns(other.spec, nameSpace)) {
          return Error{Code::Conflict, "NamespaceTaken",
                       "namespace " + nameSpace + " belongs to tenant " + other.name.value + "; choose another name for it"};
        }
      }
      continue;
    }
    for (const std::string& nameSpace : other.spec.namespaces) {
      if (owns(spec, nameSpace)) continue;
      const auto services = servicesIn(nameSpace, store);
      if (!services.ok()) return services.error();
      if (*services > 0) {
        return Error{Code::Conflict, "NamespaceInUse",
                     "namespace " + nameSpace + " has " + count(*services) + "; delete them first (coterie get modelservices -n " + nameSpace + ")"};
      }
    }
  }
  return {};
}

tenancy::ServiceUse useOf(const ModelService& service, const MachineFacts& facts) {
  const Isolation isolation = service.spec.isolation;
  return tenancy::useOf(service, facts.measuredMemory(service.serviceName()), isolation == Isolation::None ? 0 : facts.unitCpus(isolation));
}

// A name that nobody bears would open the service to nobody, and later to whoever takes it.
Status checkConsumers(const std::vector<std::string>& consumers, const TenantName& owner, const std::vector<NamedTenant>& known) {
  for (std::size_t i = 0; i < consumers.size(); ++i) {
    const std::string field = "spec.consumers[" + std::to_string(i) + "]: ";
    if (consumers[i] == owner.value) return Error{Code::InvalidArgument, "ConsumerIsOwner", field + owner.value + " owns the service: leave it out"};
    const auto is = [&](const NamedTenant& tenant) { return tenant.name.value == consumers[i]; };
    if (consumers[i] == "*" || std::any_of(known.begin(), known.end(), is)) continue;
    // No nearest name: who may write services need not know who else is here.
    return Error{Code::NotFound, "UnknownTenant",
                 field + "there is no tenant " + consumers[i] + "; correct the name, or create it first: coterie tenant create " + consumers[i]};
  }
  return {};
}

Status admitService(const ModelService& service, const ObjectStore& store, const MachineFacts& facts) {
  const auto owner = tenantOf(service.metadata.nameSpace, store);
  if (!owner.ok()) return owner.error();
  const auto known = tenants(store);
  if (!known.ok()) return known.error();
  const auto tenant = std::find_if(known->begin(), known->end(), [&](const NamedTenant& each) { return each.name == *owner; });
  if (const Status consumers = checkConsumers(service.spec.consumers, *owner, *known); !consumers) return consumers;
  std::vector<tenancy::ServiceUse> others;
  for (const std::string& nameSpace : tenant->spec.namespaces) {
    const auto list = store.list(std::string(kModelServiceKind), nameSpace);
    if (!list.ok()) return list.error();
    for (const StoredObject& object : list->objects) {
      Faults faults;
      auto spec = objects::decodeModelServiceSpec(object.spec, faults);
      if (!spec) continue;
      const ModelService other{{object.key.name, object.key.nameSpace, {}}, std::move(*spec)};
      others.push_back(useOf(other, facts));
    }
  }
  return tenancy::checkQuota(*owner, tenant->spec.quota, others, useOf(service, facts));
}

}  // namespace

Result<TenantName> tenantOf(const std::string& nameSpace, const ObjectStore& store) {
  const auto known = tenants(store);
  if (!known.ok()) return known.error();
  std::vector<std::string_view> names;
  for (const NamedTenant& tenant : *known) {
    if (owns(tenant.spec, nameSpace)) return tenant.name;
    names.insert(names.end(), tenant.spec.namespaces.begin(), tenant.spec.namespaces.end());
  }
  const auto near = objects::nearest(nameSpace, names);
  return Error{Code::NotFound, "UnknownNamespace",
               "no tenant owns namespace " + nameSpace +
                   (near ? "; did you mean " + *near + "?"
                         : "; add it to a tenant's spec.namespaces, or: coterie tenant create NAME --namespace " + nameSpace)};
}

MachineFacts machineFacts(const AdminBackend& backend) {
  return {[&backend](const ServiceName& service) { return backend.measuredMemory(service); },
          [&backend](Isolation isolation) { return backend.unitCpus(isolation); }};
}

Status admit(const objects::AnyObject& object, const ObjectStore& store, const MachineFacts& facts) {
  if (const auto* tenant = std::get_if<TenantSpec>(&object.spec)) return admitTenant(object.metadata, *tenant, store);
  return admitService({object.metadata, std::get<ModelServiceSpec>(object.spec)}, store, facts);
}

Status admitRemoval(const ObjectKey& key, const ObjectStore& store) {
  if (key.kind != kTenantKind) return {};
  const auto known = tenants(store);
  if (!known.ok()) return known.error();
  for (const NamedTenant& tenant : *known) {
    if (tenant.name.value != key.name) continue;
    for (const std::string& nameSpace : tenant.spec.namespaces) {
      const auto services = servicesIn(nameSpace, store);
      if (!services.ok()) return services.error();
      if (*services > 0) {
        return Error{Code::Conflict, "TenantNotEmpty",
                     "tenant " + key.name + " has " + count(*services) + " in namespace " + nameSpace + "; delete them first"};
      }
    }
  }
  return {};
}

}  // namespace coterie::admin
