//! One row per rule: variables → what is in force → what is said.

use super::*;
use crate::config::OtlpOutput;

/// What a row expects to be in force.
enum Effect {
    Off(OffReason),
    /// An error that names this variable.
    Refused(&'static str),
    /// On, with these settings; those not named are left open.
    On(&'static [(&'static str, &'static str)]),
}

use Effect::{Off, On, Refused};

struct Row {
    variables: &'static [(&'static str, &'static str)],
    effect: Effect,
    /// Words of what is said, one text for each finding.
    says: &'static [&'static str],
}

const fn row(
    variables: &'static [(&'static str, &'static str)],
    effect: Effect,
    says: &'static [&'static str],
) -> Row {
    Row { variables, effect, says }
}

const E: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TE: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const X: &str = "OTEL_TRACES_EXPORTER";
const P: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const I: &str = "OTEL_EXPORTER_OTLP_INSECURE";
const Z: &str = "OTEL_EXPORTER_OTLP_COMPRESSION";
const C: &str = "OTEL_EXPORTER_OTLP_CERTIFICATE";
const CC: &str = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE";
const CK: &str = "OTEL_EXPORTER_OTLP_CLIENT_KEY";
const A: &str = "OTEL_ATTRIBUTE_COUNT_LIMIT";
const L: &str = "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT";
const ON: (&str, &str) = (X, "otlp");

#[rustfmt::skip]
const TABLE: &[Row] = &[
    // Off unless asked for.
    row(&[], Off(OffReason::NotAsked), &[]),
    row(&[(E, ""), (TE, ""), (X, "")], Off(OffReason::NotAsked), &[]),
    row(&[(X, " ")], Off(OffReason::NotAsked), &[]),
    row(&[("OTEL_EXPORTER_OTLP_HEADERS", "a=b"), ("OTEL_SERVICE_NAME", "s")], Off(OffReason::NotAsked), &[]),
    row(&[(E, "http://c:4318")], On(&[("endpoint", "http://c:4318/v1/traces")]), &[]),
    row(&[(TE, "http://c:4318/x")], On(&[("endpoint", "http://c:4318/x")]), &[]),
    row(&[ON], On(&[("endpoint", "http://localhost:4318/v1/traces")]), &[]),
    row(&[(X, " OTLP ")], On(&[("endpoint", "http://localhost:4318/v1/traces")]), &[]),
    row(&[(X, "otlp,otlp")], On(&[]), &[]),
    row(&[(X, "console")], On(&[("output", "console")]), &[]),
    row(&[(X, "none"), (E, "http://c:4318")], Off(OffReason::ExporterNone), &[]),
    row(&[(X, "None")], Off(OffReason::ExporterNone), &[]),
    row(&[(X, "zipkin")], Refused(X), &["zipkin"]),
    row(&[(X, "otlp,console")], Refused(X), &["several"]),
    row(&[(X, "none,otlp")], Refused(X), &["several"]),
    row(&[("OTEL_SDK_DISABLED", "true"), ON], Off(OffReason::SdkDisabled), &[]),
    row(&[("OTEL_SDK_DISABLED", "TRUE"), ON], Off(OffReason::SdkDisabled), &[]),
    row(&[("OTEL_SDK_DISABLED", "false"), ON], On(&[]), &[]),
    row(&[("OTEL_SDK_DISABLED", ""), ON], On(&[]), &[]),
    row(&[("OTEL_SDK_DISABLED", "1"), ON], On(&[]), &["OTEL_SDK_DISABLED=\"1\" is neither true nor false: counts as false"]),
    // Disabled beats a configuration that would be refused.
    row(&[("OTEL_SDK_DISABLED", "true"), (E, "c:4318")], Off(OffReason::SdkDisabled), &[]),

    // The endpoint: a base gets the path, the traces' own is used as it is.
    row(&[(E, "http://c:4318/")], On(&[("endpoint", "http://c:4318/v1/traces")]), &[]),
    row(&[(E, "http://c:4318/base")], On(&[("endpoint", "http://c:4318/base/v1/traces")]), &[]),
    row(&[(E, "http://c:4318/base/")], On(&[("endpoint", "http://c:4318/base/v1/traces")]), &[]),
    row(&[(E, "http://c:4318/v1/traces")], On(&[("endpoint", "http://c:4318/v1/traces/v1/traces")]), &["already ends in /v1/traces"]),
    row(&[(E, "http://c:4318/b?k=v")], On(&[("endpoint", "http://c:4318/b/v1/traces?k=v")]), &[]),
    row(&[(E, "HTTPS://C")], On(&[("endpoint", "https://c/v1/traces")]), &[]),
    row(&[(E, "http://[::1]:4318")], On(&[("endpoint", "http://[::1]:4318/v1/traces")]), &[]),
    row(&[(TE, "http://c:4318/v1/traces"), (E, "rubbish")], On(&[("endpoint", "http://c:4318/v1/traces")]), &[]),
    row(&[(TE, ""), (E, "http://c:4318")], On(&[("endpoint", "http://c:4318/v1/traces")]), &[]),
    row(&[(TE, "http://c:4318")], On(&[("endpoint", "http://c:4318/")]), &["has no path"]),
    row(&[(E, "http://c:4317")], On(&[("endpoint", "http://c:4317/v1/traces")]), &["OTEL_EXPORTER_OTLP_PROTOCOL=grpc"]),
    row(&[(E, "c:4318")], Refused(E), &["with a host"]),
    row(&[(E, "grpc://c:4317")], Refused(E), &["with a host"]),
    row(&[(E, " http://c:4318")], Refused(E), &["without blanks"]),
    row(&[(E, "http://c:4318 ")], Refused(E), &["without blanks"]),
    row(&[(E, " ")], Refused(E), &["with a host"]),
    row(&[(E, "not a url")], Refused(E), &["with a host"]),
    row(&[(E, "http://")], Refused(E), &["with a host"]),
    row(&[(E, "http:///x")], Refused(E), &["with a host"]),
    row(&[(E, "http:c")], Refused(E), &["with a host"]),
    row(&[(E, "http://c:99999")], Refused(E), &["with a host"]),
    row(&[(E, "http://me:hunter2@c")], On(&[("endpoint", "http://•••@c/v1/traces")]), &[]),
    row(&[(E, "ftp://me:hunter2@c")], Refused(E), &["ftp://•••@c"]),

    // The protocol.
    row(&[ON, (P, "http/protobuf")], On(&[("protocol", "http/protobuf")]), &[]),
    row(&[ON, (P, " HTTP/Protobuf ")], On(&[("protocol", "http/protobuf")]), &[]),
    row(&[ON, (P, "")], On(&[("protocol", "http/protobuf")]), &[]),
    row(&[ON, (P, "http")], On(&[("protocol", "http/protobuf")]), &["unknown protocol"]),
    row(&[ON, (P, "http/json")], Refused("OTEL_EXPORTER_OTLP_PROTOCOL"), &["use http/protobuf"]),
    row(&[ON, (P, "grpc")], On(&[("protocol", "grpc"), ("endpoint", "http://localhost:4317")]), &[]),
    row(&[ON, (P, " gRPC ")], On(&[("protocol", "grpc")]), &[]),
    row(&[ON, ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"), (P, "http/protobuf")], On(&[("protocol", "grpc")]), &[]),
    row(&[ON, ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", ""), (P, "grpc")], On(&[("protocol", "grpc")]), &[]),

    // A gRPC address: scheme, host and port, the same for both variables.
    row(&[(P, "grpc"), (E, "http://c:4317")], On(&[("endpoint", "http://c:4317")]), &[]),
    row(&[(P, "grpc"), (E, "https://c:4317/")], On(&[("endpoint", "https://c:4317")]), &[]),
    row(&[(P, "grpc"), (TE, "http://c:4317"), (E, "rubbish ")], On(&[("endpoint", "http://c:4317")]), &[]),
    row(&[(P, "grpc"), (E, "http://c:4317/v1/traces")], On(&[("endpoint", "http://c:4317")]), &["the rest is left out"]),
    row(&[(P, "grpc"), (TE, "http://c:4317/?k=v")], On(&[("endpoint", "http://c:4317")]), &["the rest is left out"]),
    row(&[(P, "grpc"), (E, "http://c:4318")], On(&[("endpoint", "http://c:4318")]), &["usual port of OTLP/HTTP"]),
    row(&[(P, "grpc"), (E, "http://me:hunter2@c:4317")], On(&[("endpoint", "http://c:4317")]), &["gRPC does not send"]),
    row(&[(P, "grpc"), (E, "grpc://c:4317")], Refused(E), &["with a host"]),
    row(&[(P, "grpc"), (E, " http://c:4317")], Refused(E), &["without blanks"]),
    row(&[(P, "grpc"), (E, "http://")], Refused(E), &["with a host"]),
    row(&[(P, "grpc"), (E, "http:///v1")], Refused(E), &["with a host"]),
    // Without a scheme it is secure unless said otherwise; with one, the scheme counts.
    row(&[(P, "grpc"), (E, "c:4317")], On(&[("endpoint", "https://c:4317")]), &[]),
    row(&[(P, "grpc"), (E, "c:4317"), (I, "true")], On(&[("endpoint", "http://c:4317")]), &[]),
    row(&[(P, "grpc"), (E, "c:4317"), (I, "TRUE ")], On(&[("endpoint", "http://c:4317")]), &[]),
    row(&[(P, "grpc"), (E, "c:4317"), (I, "false")], On(&[("endpoint", "https://c:4317")]), &[]),
    row(&[(P, "grpc"), (E, "c:4317"), ("OTEL_EXPORTER_OTLP_TRACES_INSECURE", "true"), (I, "false")], On(&[("endpoint", "http://c:4317")]), &[]),
    row(&[(P, "grpc"), (E, "c:4317"), (I, "yes")], On(&[("endpoint", "https://c:4317")]), &["OTEL_EXPORTER_OTLP_INSECURE=\"yes\" is neither true nor false"]),
    row(&[(P, "grpc"), (E, "https://c:4317"), (I, "true")], On(&[("endpoint", "https://c:4317")]), &[]),
    row(&[(P, "grpc"), (E, "http://c:4317"), (I, "false")], On(&[("endpoint", "http://c:4317")]), &[]),
    row(&[(E, "http://c:4318"), (I, "0")], On(&[("endpoint", "http://c:4318/v1/traces")]), &["neither true nor false"]),

    // Compression.
    row(&[ON], On(&[("compression", "none")]), &[]),
    row(&[ON, (Z, "gzip")], On(&[("compression", "gzip")]), &[]),
    row(&[ON, (Z, " GZIP")], On(&[("compression", "gzip")]), &[]),
    row(&[ON, (Z, "zstd")], On(&[("compression", "zstd")]), &[]),
    row(&[ON, (Z, "none")], On(&[("compression", "none")]), &[]),
    row(&[ON, (Z, "")], On(&[("compression", "none")]), &[]),
    row(&[ON, (Z, "deflate")], On(&[("compression", "none")]), &["is none of none, gzip, zstd: using none"]),
    row(&[ON, ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "none"), (Z, "gzip")], On(&[("compression", "none")]), &[]),
    row(&[ON, ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", ""), (Z, "gzip")], On(&[("compression", "gzip")]), &[]),
    row(&[ON, (P, "grpc"), (Z, "gzip")], On(&[("compression", "gzip")]), &[]),

    // TLS. The files themselves are read when the layer starts.
    row(&[(E, "https://c"), (C, "/ca.pem")], On(&[("certificate", "/ca.pem")]), &[]),
    row(&[(E, "https://c"), ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "/t.pem"), (C, "/ca.pem")], On(&[("certificate", "/t.pem")]), &[]),
    row(&[(P, "grpc"), (E, "c:4317"), (C, "/ca.pem")], On(&[("certificate", "/ca.pem")]), &[]),
    row(&[(E, "http://c"), (C, "/ca.pem")], On(&[]), &["no meaning at an http:// address"]),
    row(&[ON, (C, "/ca.pem")], On(&[]), &["no meaning at an http:// address"]),
    row(&[(E, "https://c"), (CC, "/c.pem"), (CK, "/c.key")], On(&[("client certificate", "/c.pem"), ("client key", "/c.key")]), &[]),
    row(&[(E, "https://c"), (CC, "/c.pem"), ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "/t.key"), (CK, "/c.key")], On(&[("client key", "/t.key")]), &[]),
    row(&[(E, "https://c"), ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", "/t.pem"), (CC, "/c.pem"), (CK, "/c.key")], On(&[("client certificate", "/t.pem")]), &[]),
    row(&[(E, "https://c"), (CC, "/c.pem")], Refused(CC), &["is set without OTEL_EXPORTER_OTLP_CLIENT_KEY: set both"]),
    row(&[(E, "https://c"), (CK, "/c.key"), (CC, "")], Refused(CK), &["is set without OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"]),
    row(&[(E, "http://c"), (CK, "/c.key")], On(&[]), &["no meaning at an http:// address"]),
    row(&[ON, ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"), (P, "http/json")], On(&[("protocol", "http/protobuf")]), &[]),

    // Headers: percent-decoded; of what is wrong never the value.
    row(&[ON, ("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20hunter2, x-a = 1")], On(&[("headers", "authorization=•••,x-a=•••")]), &[]),
    row(&[ON, ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "b=2"), ("OTEL_EXPORTER_OTLP_HEADERS", "a=1")], On(&[("headers", "b=•••")]), &[]),
    row(&[ON, ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", ""), ("OTEL_EXPORTER_OTLP_HEADERS", "a=1")], On(&[("headers", "a=•••")]), &[]),
    row(&[ON, ("OTEL_EXPORTER_OTLP_HEADERS", "a=1=2,a=3")], On(&[("headers", "a=•••")]), &[]),
    row(&[ON, ("OTEL_EXPORTER_OTLP_HEADERS", "hunter2,a=1")], On(&[("headers", "a=•••")]), &["item 1"]),
    row(&[ON, ("OTEL_EXPORTER_OTLP_HEADERS", "a=%zz")], On(&[("headers", "")]), &["percent-encoding"]),
    row(&[ON, ("OTEL_EXPORTER_OTLP_HEADERS", "a b=hunter2")], On(&[("headers", "")]), &["no header name in item 1"]),
    row(&[ON, ("OTEL_EXPORTER_OTLP_HEADERS", "a=x%0Ahunter2")], On(&[("headers", "")]), &["no header may have at a"]),

    // Timeouts.
    row(&[ON], On(&[("timeout", "10s")]), &[]),
    row(&[ON, ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500")], On(&[("timeout", "2.5s")]), &[]),
    row(&[ON, ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "1"), ("OTEL_EXPORTER_OTLP_TIMEOUT", "x")], On(&[("timeout", "1ms")]), &[]),
    row(&[ON, ("OTEL_EXPORTER_OTLP_TIMEOUT", "0")], On(&[("timeout", "none")]), &[]),
    row(&[ON, ("OTEL_EXPORTER_OTLP_TIMEOUT", "-1")], On(&[("timeout", "10s")]), &["using 10000"]),
    row(&[ON, ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s")], On(&[("timeout", "10s")]), &["using 10000"]),

    // The sampler.
    row(&[ON], On(&[("sampler", "parentbased_always_on")]), &[]),
    row(&[ON, ("OTEL_TRACES_SAMPLER", " Always_Off ")], On(&[("sampler", "always_off")]), &[]),
    row(&[ON, ("OTEL_TRACES_SAMPLER", "")], On(&[("sampler", "parentbased_always_on")]), &[]),
    row(&[ON, ("OTEL_TRACES_SAMPLER", "parentbased_always_off")], On(&[("sampler", "parentbased_always_off")]), &[]),
    row(&[ON, ("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0.25")], On(&[("sampler", "traceidratio 0.25")]), &[]),
    row(&[ON, ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")], On(&[("sampler", "parentbased_traceidratio 1")]), &[]),
    row(&[ON, ("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "NaN")], On(&[("sampler", "traceidratio 1")]), &["OTEL_TRACES_SAMPLER_ARG=\"NaN\" is not a number in [0, 1]: using 1.0"]),
    row(&[ON, ("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "-1")], On(&[("sampler", "traceidratio 1")]), &["not a number in [0, 1]"]),
    row(&[ON, ("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "5")], On(&[("sampler", "traceidratio 1")]), &["not a number in [0, 1]"]),
    row(&[ON, ("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "50%")], On(&[("sampler", "traceidratio 1")]), &["not a number in [0, 1]"]),
    row(&[ON, ("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0")], On(&[("sampler", "traceidratio 0")]), &[]),
    row(&[ON, ("OTEL_TRACES_SAMPLER", "jaeger_remote")], On(&[("sampler", "parentbased_always_on")]), &["not here"]),
    row(&[ON, ("OTEL_TRACES_SAMPLER_ARG", "0.5")], On(&[("sampler", "parentbased_always_on")]), &["no meaning"]),

    // The service and its resource.
    row(&[ON, ("OTEL_SERVICE_NAME", "tts"), ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,k=v")], On(&[("service", "tts")]), &[]),
    row(&[ON, ("OTEL_RESOURCE_ATTRIBUTES", "service.name=my%20tts")], On(&[("service", "my tts")]), &[]),
    row(&[ON, ("OTEL_SERVICE_NAME", ""), ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,service.name=b")], On(&[("service", "b")]), &[]),
    row(&[ON, ("OTEL_SERVICE_NAME", "s"), ("OTEL_RESOURCE_ATTRIBUTES", "a=1,b")], On(&[("service", "s")]), &["all of it is discarded"]),
    row(&[ON, ("OTEL_SERVICE_NAME", "s"), ("OTEL_RESOURCE_ATTRIBUTES", "a=%4")], On(&[("service", "s")]), &["all of it is discarded"]),

    // Our own.
    row(&[ON], On(&[("shape", "auto"), ("spans", "waits")]), &[]),
    row(&[ON, ("STAGESPAN_TRACE_SHAPE", " Linked")], On(&[("shape", "linked")]), &[]),
    row(&[ON, ("STAGESPAN_TRACE_SHAPE", "joined")], On(&[("shape", "joined")]), &[]),
    row(&[ON, ("STAGESPAN_TRACE_SHAPE", "tree")], On(&[("shape", "auto")]), &["STAGESPAN_TRACE_SHAPE=\"tree\" is none of auto, linked, joined: using auto"]),
    row(&[ON, ("STAGESPAN_SPANS", "phases")], On(&[("spans", "phases")]), &[]),
    row(&[ON, ("STAGESPAN_SPANS", "all")], On(&[("spans", "waits")]), &["none of waits, phases"]),

    // The door.
    row(&[ON], On(&[("propagators", "tracecontext,baggage")]), &[]),
    row(&[ON, ("OTEL_PROPAGATORS", "baggage, tracecontext,baggage")], On(&[("propagators", "baggage,tracecontext")]), &[]),
    row(&[ON, ("OTEL_PROPAGATORS", "none")], On(&[("propagators", "none")]), &[]),
    row(&[ON, ("OTEL_PROPAGATORS", "none,baggage")], On(&[("propagators", "baggage")]), &["none is left out"]),
    row(&[ON, ("OTEL_PROPAGATORS", "tracecontext,b3")], On(&[("propagators", "tracecontext,b3")]), &[]),
    row(&[ON, ("OTEL_PROPAGATORS", "B3Multi, b3")], On(&[("propagators", "b3multi,b3")]), &[]),
    row(&[ON, ("OTEL_PROPAGATORS", "jaeger,tracecontext")], On(&[("propagators", "tracecontext")]), &["names jaeger, which is not supported"]),
    row(&[ON, ("OTEL_PROPAGATORS", "xray")], On(&[("propagators", "none")]), &["names xray, which is not supported"]),
    row(&[ON, ("OTEL_PROPAGATORS", "foo")], On(&[("propagators", "none")]), &["unknown"]),

    // Queue and batch.
    row(&[ON], On(&[("queue", "2048"), ("batch", "512"), ("delay", "5s"), ("export timeout", "30s")]), &[]),
    row(&[ON, ("OTEL_BSP_MAX_QUEUE_SIZE", "0")], On(&[("queue", "2048")]), &["from 1 to"]),
    row(&[ON, ("OTEL_BSP_MAX_QUEUE_SIZE", "1000000000000")], On(&[("queue", "2048")]), &["from 1 to"]),
    row(&[ON, ("OTEL_BSP_MAX_QUEUE_SIZE", "100")], On(&[("queue", "100"), ("batch", "100")]), &[]),
    row(&[ON, ("OTEL_BSP_MAX_QUEUE_SIZE", "100"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "200")], On(&[("batch", "100")]), &["larger than"]),
    row(&[ON, ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "0")], On(&[("batch", "512")]), &["from 1 to"]),
    row(&[ON, ("OTEL_BSP_SCHEDULE_DELAY", "0")], On(&[("delay", "5s")]), &["from 1 to"]),
    row(&[ON, ("OTEL_BSP_SCHEDULE_DELAY", "200")], On(&[("delay", "200ms")]), &[]),
    row(&[ON, ("OTEL_BSP_EXPORT_TIMEOUT", "0")], On(&[("export timeout", "none")]), &[]),
    row(&[ON, ("OTEL_BSP_EXPORT_TIMEOUT", "soon")], On(&[("export timeout", "30s")]), &["using 30000"]),

    // Span limits: shown where they are set, span-specific ones before general ones.
    row(&[ON, (A, "10")], On(&[("span attributes", "10")]), &[]),
    row(&[ON, ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "20"), (A, "10")], On(&[("span attributes", "20")]), &[]),
    row(&[ON, ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", " "), (A, "10")], On(&[("span attributes", "10")]), &[]),
    row(&[ON, (A, "0")], On(&[("span attributes", "0")]), &[]),
    row(&[ON, (A, "-1")], On(&[("span attributes", "128")]), &["from 0 to 4294967295: using 128"]),
    row(&[ON, (A, "many")], On(&[("span attributes", "128")]), &["using 128"]),
    row(&[ON, (L, "64")], On(&[("attribute length", "64")]), &[]),
    row(&[ON, ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "32"), (L, "64")], On(&[("attribute length", "32")]), &[]),
    row(&[ON, (L, "1.5")], On(&[]), &["using no limit"]),
    row(&[ON, (L, "-1")], On(&[]), &["using no limit"]),
    row(&[ON, ("OTEL_SPAN_EVENT_COUNT_LIMIT", "1")], On(&[("span events", "1")]), &[]),
    row(&[ON, ("OTEL_SPAN_LINK_COUNT_LIMIT", "2")], On(&[("span links", "2")]), &[]),
    row(&[ON, ("OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", "3")], On(&[("event attributes", "3")]), &[]),
    row(&[ON, ("OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", "4")], On(&[("link attributes", "4")]), &[]),
    row(&[ON, ("OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", "x")], On(&[("link attributes", "128")]), &["OTEL_LINK_ATTRIBUTE_COUNT_LIMIT=\"x\""]),

    // Our own log, and what has no meaning here.
    row(&[ON], On(&[("log level", "info")]), &[]),
    row(&[ON, ("OTEL_LOG_LEVEL", "DEBUG")], On(&[("log level", "debug")]), &[]),
    row(&[ON, ("OTEL_LOG_LEVEL", "loud")], On(&[("log level", "info")]), &["is none of info, off, none, error"]),
    row(&[("OTEL_LOG_LEVEL", "none")], Off(OffReason::NotAsked), &[]),
    row(&[ON, ("OTEL_CONFIG_FILE", "/otel.yaml")], On(&[]), &["not supported: ignored"]),
    row(&[ON, ("OTEL_EXPERIMENTAL_CONFIG_FILE", "/otel.yaml")], On(&[]), &["not supported: ignored"]),

    // Several errors are all said.
    row(&[(E, "c:4318"), (P, "http/json")], Refused(E), &["http/protobuf", "with a host"]),
    row(&[(E, "grpc://c"), (P, "grpc"), (CK, "k")], Refused(E), &["with a host", "set without"]),
];

#[test]
fn the_table() {
    for Row { variables, effect, says } in TABLE {
        let reading = Config::from_environment(&Environment::from_pairs(variables.iter().copied()));
        let mut said: Vec<String> = reading.warnings.iter().map(ToString::to_string).collect();
        match (&reading.activation, effect) {
            (Ok(Activation::Off(reason)), Off(expected)) => assert_eq!(reason, expected, "{variables:?}"),
            (Ok(Activation::On(_)), On(expected)) => {
                for (name, value) in *expected {
                    let setting = reading.settings.iter().find(|s| s.name == *name);
                    assert_eq!(setting.map(|s| s.value.as_str()), Some(*value), "{name} of {variables:?}");
                }
            }
            (Err(error), Refused(variable)) => {
                assert!(error.findings.iter().any(|f| f.variable == *variable), "{variables:?}: {error}");
                said.extend(error.findings.iter().map(ToString::to_string));
            }
            (activation, _) => panic!("{variables:?}: {activation:?}"),
        }
        assert_eq!(said.len(), says.len(), "{variables:?}: {said:#?}");
        for (line, words) in said.iter().zip(*says) {
            assert!(line.contains(words), "{variables:?}: {line}");
        }
        let everything = format!("{reading:?}{said:?}");
        assert!(!everything.contains("hunter2"), "{variables:?}: {everything}");
    }
}

#[test]
fn what_is_in_force_is_in_the_configuration() {
    let variables = [
        (E, "http://me:hunter2@c"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20hunter2"),
        ("OTEL_RESOURCE_ATTRIBUTES", "k8s.pod.name=p"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "99"),
    ];
    let reading = Config::from_environment(&Environment::from_pairs(variables));
    let Ok(Activation::On(config)) = reading.activation else { panic!() };
    let Output::Otlp(OtlpOutput { endpoint, headers, timeout, .. }) = &config.output else { panic!() };
    assert_eq!(endpoint, "http://me:hunter2@c/v1/traces", "only people are shown a mask");
    assert_eq!(headers[0].0, "authorization");
    assert_eq!(headers[0].1.reveal(), "Bearer hunter2");
    assert_eq!(timeout.map(|t| t.as_millis()), Some(10_000));
    assert_eq!(config.batch.queue_entries, 99);
    assert_eq!(config.resource.extra, [("k8s.pod.name".to_owned(), "p".to_owned())]);
    assert!(!format!("{config:?}").contains("hunter2"), "{config:?}");
}

#[test]
fn sources_are_told() {
    let variables = [ON, ("OTEL_SERVICE_NAME", "s")];
    let reading = Config::from_environment(&Environment::from_pairs(variables));
    let source = |name: &str| reading.settings.iter().find(|s| s.name == name).unwrap().source.to_string();
    assert_eq!(source("service"), "from OTEL_SERVICE_NAME");
    assert_eq!(source("endpoint"), "default");
}

#[test]
fn a_file_is_written_whatever_the_exporter() {
    let to_file = |variables: &[(&str, &str)]| {
        Config::to_json_file("t.json", &Environment::from_pairs(variables.iter().copied()))
            .activation
            .unwrap()
    };
    for variables in [&[][..], &[(X, "none")], &[(E, "c:4318")]] {
        let Activation::On(config) = to_file(variables) else { panic!("{variables:?}") };
        assert!(matches!(&config.output, Output::OtlpJsonFile(path) if path.as_os_str() == "t.json"));
    }
    let off = to_file(&[("OTEL_SDK_DISABLED", "true")]);
    assert!(matches!(off, Activation::Off(OffReason::SdkDisabled)));
}
