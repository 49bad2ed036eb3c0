//! The Grafana dashboard of `collector-config/`, as far as it can be checked without Grafana.

use anyhow::{Context as _, ensure};
use serde_json::Value as Json;

use crate::chain::config;

/// A query of a panel.
#[derive(Debug, Clone)]
pub struct PanelQuery {
    /// The panel's title.
    pub panel: String,
    /// The query with every variable filled in as Grafana does at the default choice, "All".
    pub query: String,
}

/// What Grafana would put in place of its variables.
const VARIABLES: [(&str, &str); 3] = [("$__rate_interval", "1m"), ("$service", ".*"), ("$stage", ".*")];

/// The Prometheus queries of all panels.
///
/// # Errors
/// If the file is no dashboard, or uses a variable that is not known here.
pub fn prometheus_queries() -> anyhow::Result<Vec<PanelQuery>> {
    let text = std::fs::read_to_string(config("grafana/stagespan.json")).context("grafana/stagespan.json")?;
    let dashboard: Json = serde_json::from_str(&text).context("grafana/stagespan.json")?;
    let panels = dashboard["panels"].as_array().context("no panels")?;
    let mut queries = Vec::new();
    for panel in panels {
        let title = panel["title"].as_str().context("a panel without a title")?;
        for expression in panel["targets"].as_array().into_iter().flatten().filter_map(|t| t["expr"].as_str())
        {
            let query = VARIABLES
                .iter()
                .fold(expression.to_owned(), |query, (name, value)| query.replace(name, value));
            ensure!(!query.contains('$'), "{title}: an unknown variable in {expression}");
            queries.push(PanelQuery { panel: title.to_owned(), query });
        }
    }
    Ok(queries)
}
