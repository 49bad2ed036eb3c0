//! Small programs that use Stagespan.
