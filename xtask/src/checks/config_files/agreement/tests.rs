use super::*;

fn files(entries: &[(&str, &str)]) -> Files {
    entries.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

const JAEGER: &str = "endpoint: ${env:JAEGER_LISTEN_HOST:-127.0.0.1}:${env:JAEGER_OTLP_GRPC_PORT:-4317}\n";

fn compose(text: &str) -> String {
    complaints(&files(&[("docker-compose.yaml", text), ("jaeger.yaml", JAEGER)])).join("\n")
}

const GOOD: &str = "
services:
  jaeger:
    command: [--config, /etc/jaeger.yaml]
    environment:
      JAEGER_LISTEN_HOST: 0.0.0.0
    volumes: [./jaeger.yaml:/etc/jaeger.yaml:ro]
    ports: [127.0.0.1:4317:4317]
";

#[test]
fn a_docker_file_that_agrees_passes() {
    assert_eq!(compose(GOOD), "");
}

#[test]
fn each_contradiction_is_named() {
    let table = [
        ("./jaeger.yaml:", "./jager.yaml:", "mounts jager.yaml, which is not there"),
        ("/etc/jaeger.yaml]", "/etc/x.yaml]", "is given /etc/x.yaml, which is not mounted"),
        ("JAEGER_LISTEN_HOST", "JAEGER_HOST", "sets JAEGER_HOST, which none of its files reads"),
        ("0.0.0.0\n", "tempo:4317\n", "sets JAEGER_LISTEN_HOST=tempo:4317, which is no service"),
        ("4317:4317", "4317:14317", "publishes port 14317, on which none"),
        ("4317:4317", "4317:431", "publishes port 431, on which none"),
        ("127.0.0.1:4317:4317", "4317:4317", "publishes 4317:4317 to every network"),
    ];
    for (from, to, expected) in table {
        let found = compose(&GOOD.replace(from, to));
        assert!(found.contains(expected), "{from} -> {to} said: {found}");
    }
}

#[test]
fn attributes_are_those_of_the_layer() {
    let known =
        "key: stagespan.input_wait_ns\n{ span.stagespan.stage.name } stagespan.link.talker. stagespan.json";
    assert_eq!(unknown_attributes(known).collect::<Vec<_>>(), Vec::<String>::new());
    let unknown = "key: stagespan.input_wait_ms, stagespan.wait.";
    assert_eq!(
        unknown_attributes(unknown).collect::<Vec<_>>(),
        ["stagespan.input_wait_ms", "stagespan.wait"]
    );
}

#[test]
fn containers_run_the_tested_release_and_set_what_is_read() {
    let with = |image: &str, variable: &str| {
        let pod = format!(
            "  image: otel/opentelemetry-collector-contrib:{image}\n  - name: {variable}\n  - name: POD\n"
        );
        let entries = [
            ("builder.yaml", "dist:\n  version: 0.161.0\n"),
            ("agent.yaml", "endpoint: ${env:AGENT_NEXT:-127.0.0.2:4317}\n"),
            ("kubernetes/agent.yaml", pod.as_str()),
        ];
        complaints(&files(&entries)).join("\n")
    };
    assert_eq!(with("0.161.0", "AGENT_NEXT"), "");
    assert!(with("0.160.0", "AGENT_NEXT").contains("image is 0.160.0"));
    assert!(with("0.161.0", "AGENT_NXT").contains("sets AGENT_NXT, which no file reads"));
}

fn tempo(change: (&str, &str)) -> String {
    let entries = [
        ("docker-compose.tempo.yaml", "services:\n  collector:\n    image: c\n  tempo:\n    image: t\n"),
        ("prometheus.yaml", "targets: [collector:9464]\n"),
        ("gateway-sampler.yaml", "endpoint: 127.0.0.3:9464\n"),
        ("tempo.yaml", "http_listen_port: 3200\n"),
        ("to-tempo.yaml", "X-Scope-OrgID: ${env:TEMPO_TENANT:-ours}\n"),
        (
            "grafana/datasources.yaml",
            " uid: stagespan-tempo\nurl: http://tempo:3200\nhttpHeaderValue1: ours\n",
        ),
        ("grafana/stagespan.json", "\"uid\": \"stagespan-tempo\"\n"),
    ];
    let changed = entries.map(|(name, text)| (name.to_owned(), text.replace(change.0, change.1)));
    tempo_complaints(&changed.into_iter().collect()).join("\n")
}

#[test]
fn tempos_files_agree_with_each_other() {
    assert_eq!(tempo(("", "")), "");
    let table = [
        ("[collector:9464]", "[sampler:9464]", "listens at sampler:9464"),
        ("[collector:9464]", "[collector:9465]", "listens at collector:9465"),
        ("http://tempo:3200", "http://tempo:3100", "no service listens at tempo:3100"),
        ("TEMPO_TENANT:-ours", "TEMPO_TENANT:-theirs", "another tenant"),
        ("\"stagespan-tempo\"", "\"stagespan-jaeger\"", "no data source has the uid stagespan-jaeger"),
    ];
    for (from, to, expected) in table {
        let found = tempo((from, to));
        assert!(found.contains(expected), "{from} -> {to} said: {found}");
    }
}
