//! Instants, clock domains, the queued-time split and the records of Stagespan.
