//! What must hold of every span of ours, whatever ran: each function takes spans as a back end holds them, and says what
//! is wrong with the first that breaks a rule.

mod links;
mod waits;

pub use links::{check_links, check_resolve};
pub use waits::{check_request, check_stage};

#[cfg(test)]
mod tests;
