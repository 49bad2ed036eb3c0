//! What a person sees: at most 100 columns, three significant digits and a unit.
//!
//! Everything is written with ANSI styles; `anstream` takes them out where standard output is no
//! terminal or `NO_COLOR` is set. Shapes differ too, so nothing is told by colour alone.

mod bar;
mod comparison;
mod number;
mod style;
mod table;
mod waterfall;

pub(crate) use comparison::comparison;
pub(crate) use number::duration;
pub(crate) use style::{BAD, DIM, GOOD, STRONG, WARNING, paint};
pub(crate) use table::stage_table;
pub(crate) use waterfall::waterfall;

/// The widest line.
pub(crate) const COLUMNS_MAX: usize = 100;
/// The most characters of a name in a column; longer ones are cut.
const NAME_MAX: usize = 16;

/// A name cut to its column.
pub(crate) fn cut(name: &str) -> String {
    match name.char_indices().nth(NAME_MAX) {
        Some(_) => name.chars().take(NAME_MAX - 1).chain(['…']).collect(),
        None => name.to_owned(),
    }
}

/// The width of a column of names.
fn name_width<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    names.map(|name| name.chars().count().min(NAME_MAX)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
