//! Who a process is, as an OpenTelemetry resource.

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use stagespan_model::StageResource;

use crate::attributes;
use crate::config::resource_attributes;
use crate::environment::Environment;

/// The resource of the process that runs this stage's engine. Call it in that process: what it
/// says of host and pid is the caller's.
///
/// `OTEL_RESOURCE_ATTRIBUTES` beats what is detected, `service.instance.id` aside, to which stage
/// and replica are always added: children inherit the variable, and must stay apart.
///
/// `host.id` is the machine's id (`/etc/machine-id`); where there is none, as in many containers,
/// the kernel's boot id, which names the running machine as well; else the host's name.
pub fn detect(environment: &Environment, stage_id: u32, replica_id: u32) -> StageResource {
    let mut resource = detect_process(environment);
    resource.service_instance_id = format!("stage{stage_id}.{replica_id}-{}", resource.service_instance_id);
    resource
}

/// The resource of this process, outside any stage. See [`detect`].
pub fn detect_process(environment: &Environment) -> StageResource {
    // What is wrong with the variable is reported where the configuration is read.
    let given = resource_attributes(environment).unwrap_or_default();
    let find =
        |key: &str| given.iter().find(|(k, v)| k == key && !v.is_empty()).map(|(_, value)| value.clone());
    let host_name = find(attributes::HOST_NAME).unwrap_or_else(host_name);
    let pid = std::process::id();
    StageResource {
        service_instance_id: find(attributes::SERVICE_INSTANCE_ID)
            .unwrap_or_else(|| format!("{host_name}-{pid}")),
        service_version: find(attributes::SERVICE_VERSION)
            .unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned()),
        host_id: find(attributes::HOST_ID).or_else(machine_id).unwrap_or_else(|| host_name.clone()),
        host_name,
        process_pid: pid,
        extra: given.into_iter().filter(|(key, _)| !is_own_field(key)).collect(),
    }
}

/// The resource of a forked child, which has another pid than the one that was detected.
pub(crate) fn in_child(parent: &StageResource) -> StageResource {
    let pid = std::process::id();
    let parents = &parent.service_instance_id;
    let instance = parents.strip_suffix(&format!("-{}", parent.process_pid)).unwrap_or(parents);
    StageResource { service_instance_id: format!("{instance}-{pid}"), process_pid: pid, ..parent.clone() }
}

/// Keys that have a field of their own, or that are the service's.
fn is_own_field(key: &str) -> bool {
    [
        attributes::SERVICE_NAME,
        attributes::SERVICE_INSTANCE_ID,
        attributes::SERVICE_VERSION,
        attributes::HOST_ID,
        attributes::HOST_NAME,
        attributes::PROCESS_PID,
        attributes::IP,
    ]
    .contains(&key)
}

fn host_name() -> String {
    gethostname::gethostname().to_string_lossy().into_owned()
}

fn machine_id() -> Option<String> {
    ["/etc/machine-id", "/var/lib/dbus/machine-id", "/proc/sys/kernel/random/boot_id"].iter().find_map(
        |path| {
            let text = std::fs::read_to_string(path).ok()?;
            let id = text.trim();
            // systemd writes "uninitialized" into the file of an image that hasn't booted yet.
            (!id.is_empty() && id != "uninitialized").then(|| id.to_owned())
        },
    )
}

/// Which resource a span belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ResourceKey {
    /// This process.
    Own,
    /// A stage's process; on the request's own clock with the request's `host.id`.
    Stage {
        /// Its resource.
        resource: Arc<StageResource>,
        /// The `host.id` that stands in for its own.
        host_id: Option<Arc<str>>,
    },
}

impl ResourceKey {
    /// The resource as it is exported.
    pub(crate) fn resource(&self, own: &StageResource, service_name: &str) -> Resource {
        match self {
            Self::Own => to_otel(own, &own.host_id, service_name),
            Self::Stage { resource, host_id } => {
                to_otel(resource, host_id.as_deref().unwrap_or(&resource.host_id), service_name)
            }
        }
    }
}

fn to_otel(resource: &StageResource, host_id: &str, service_name: &str) -> Resource {
    let StageResource { service_instance_id, service_version, host_id: _, host_name, process_pid, extra } =
        resource;
    let text = |key: &'static str, value: &str| KeyValue::new(key, value.to_owned());
    let own = [
        text(attributes::SERVICE_NAME, service_name),
        text(attributes::SERVICE_INSTANCE_ID, service_instance_id),
        text(attributes::SERVICE_VERSION, service_version),
        text(attributes::HOST_ID, host_id),
        text(attributes::IP, host_id),
        text(attributes::HOST_NAME, host_name),
        KeyValue::new(attributes::PROCESS_PID, i64::from(*process_pid)),
        text(attributes::TELEMETRY_SDK_NAME, "opentelemetry"),
        text(attributes::TELEMETRY_SDK_LANGUAGE, "rust"),
        text(attributes::TELEMETRY_SDK_VERSION, SDK_VERSION),
    ];
    // A later attribute replaces an earlier one of its key: what we say of ourselves comes last.
    let extra = extra.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    Resource::builder_empty().with_attributes(extra).with_attributes(own).build()
}

/// The pinned version of opentelemetry_sdk.
const SDK_VERSION: &str = "0.33.1";

#[cfg(test)]
mod tests {
    use super::*;

    fn get(resource: &Resource, key: &'static str) -> String {
        resource.get(&key.into()).map(|value| value.to_string()).unwrap_or_default()
    }

    #[test]
    fn stages_of_one_host_stay_apart() {
        let env = Environment::from_pairs([(
            "OTEL_RESOURCE_ATTRIBUTES",
            "service.name=x,service.instance.id=pod-7,k8s.pod.name=pod%2D7,host.id=h1",
        )]);
        let talker = detect(&env, 1, 0);
        assert_eq!(talker.service_instance_id, "stage1.0-pod-7");
        assert_ne!(talker.service_instance_id, detect(&env, 1, 1).service_instance_id);
        assert_eq!(talker.host_id, "h1");
        assert_eq!(talker.process_pid, std::process::id());
        assert_eq!(talker.extra, [("k8s.pod.name".to_owned(), "pod-7".to_owned())]);
    }

    #[test]
    fn a_bare_process_has_host_and_version() {
        let own = detect_process(&Environment::default());
        assert!(!own.host_id.is_empty() && !own.host_name.is_empty());
        assert_eq!(own.service_version, env!("CARGO_PKG_VERSION"));
        assert!(own.service_instance_id.ends_with(&std::process::id().to_string()));
    }

    #[test]
    fn a_child_is_another_instance() {
        let pid = std::process::id();
        let parent = StageResource {
            service_instance_id: "h-7".to_owned(),
            process_pid: 7,
            host_id: "machine".to_owned(),
            ..StageResource::default()
        };
        let child = in_child(&parent);
        assert_eq!((child.process_pid, child.service_instance_id), (pid, format!("h-{pid}")));
        assert_eq!(child.host_id, "machine");
        let named = StageResource { service_instance_id: "pod".to_owned(), ..parent };
        assert_eq!(in_child(&named).service_instance_id, format!("pod-{pid}"));
    }

    #[test]
    fn the_exported_resource() {
        let stage = StageResource {
            service_instance_id: "stage1.0-h-7".to_owned(),
            service_version: "1".to_owned(),
            host_id: "container".to_owned(),
            host_name: "h".to_owned(),
            process_pid: 7,
            extra: vec![("k8s.pod.name".to_owned(), "p".to_owned()), ("ip".to_owned(), "x".to_owned())],
        };
        let own = StageResource { host_id: "machine".to_owned(), ..stage.clone() };
        let key = ResourceKey::Stage { resource: Arc::new(stage), host_id: None };
        let resource = key.resource(&own, "svc");
        assert_eq!(get(&resource, attributes::SERVICE_NAME), "svc");
        assert_eq!(
            (get(&resource, attributes::HOST_ID), get(&resource, attributes::IP)),
            ("container".into(), "container".into())
        );
        assert_eq!(get(&resource, "k8s.pod.name"), "p");
        assert_eq!(get(&resource, attributes::PROCESS_PID), "7");
        let ResourceKey::Stage { resource, .. } = key else { unreachable!() };
        let joined = ResourceKey::Stage { resource, host_id: Some("machine".into()) }.resource(&own, "svc");
        assert_eq!(
            (get(&joined, attributes::HOST_ID), get(&joined, attributes::IP)),
            ("machine".into(), "machine".into())
        );
    }

    #[test]
    fn the_sdk_version_is_the_pinned_one() {
        let manifest = include_str!("../../../Cargo.toml");
        assert!(manifest.contains(&format!("opentelemetry_sdk = {{ version = \"={SDK_VERSION}\"")));
    }
}
