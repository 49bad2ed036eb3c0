//! OpenTelemetry layer of Stagespan: environment, context, spans, export and its account.
