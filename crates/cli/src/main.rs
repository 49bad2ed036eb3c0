//! The `stagespan` command.

mod arguments;
mod arrivals;
mod demo;
mod doctor;
mod exit;
mod figures;
mod json;
mod log;
mod render;
mod replay;
mod scenario;
mod stage;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    log::to_stderr();
    let result = match arguments.command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Stage => stage::run(),
    };
    if let Err(failure) = &result {
        log::failure(failure.message());
    }
    exit::exit_code(&result)
}
