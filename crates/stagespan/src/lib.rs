//! Trace how long each stage of an inference pipeline waited for its input, and how long for a slot.
