//! Deterministic stage schedulers with input gates, stamping when the input was seen ready.
