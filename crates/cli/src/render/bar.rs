//! A bar of segments.

use anstyle::Style;

use super::style::paint;

/// One segment of a bar.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// How long it is, in the unit of the whole bar.
    pub(super) length: u64,
    /// What fills it.
    pub(super) fill: char,
    /// Its style.
    pub(super) style: Style,
}

/// What stands for a segment that is there, but shorter than half a cell.
const SLIVER: char = '▏';

/// The segments over `width` cells, in proportion. What is there but short gets one cell all the
/// same, taken from the longest, so that no wait vanishes; a length of 0 gets none.
pub(super) fn bar(segments: &[Segment], width: usize) -> String {
    cells(segments, width)
        .into_iter()
        .zip(segments)
        .filter(|((cells, _), _)| *cells > 0)
        .map(|((cells, sliver), segment)| {
            let fill = if sliver { SLIVER } else { segment.fill };
            let filled = String::from(fill).repeat(cells);
            // A blank needs no style, and without one it can be trimmed off the line's end.
            if fill == ' ' { filled } else { paint(segment.style, filled) }
        })
        .collect()
}

/// How many cells each segment gets, and whether it is a sliver.
fn cells(segments: &[Segment], width: usize) -> Vec<(usize, bool)> {
    let total: u128 = segments.iter().map(|s| u128::from(s.length)).sum();
    if total == 0 {
        return vec![(0, false); segments.len()];
    }
    // Rounding the running sum, not each length, keeps the sum of the cells at `width`.
    let mut until = 0_u128;
    let mut cells_before = 0;
    let mut cells: Vec<(usize, bool)> = Vec::with_capacity(segments.len());
    for segment in segments {
        until += u128::from(segment.length);
        // At most `width`.
        let cells_until = ((until * width as u128 * 2 + total) / (total * 2)) as usize;
        cells.push((cells_until - cells_before, false));
        cells_before = cells_until;
    }
    for i in 0..cells.len() {
        // Blanks are no segment of their own: nobody misses a missing one.
        if segments[i].length > 0 && cells[i].0 == 0 && segments[i].fill != ' ' {
            let longest = (0..cells.len()).max_by_key(|&j| cells[j].0).filter(|&j| cells[j].0 > 1);
            if let Some(longest) = longest {
                cells[longest].0 -= 1;
                cells[i] = (1, true);
            }
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(lengths: &[u64], width: usize) -> String {
        let segments: Vec<Segment> = lengths
            .iter()
            .zip("abcdefgh".chars())
            .map(|(&length, fill)| Segment { length, fill, style: Style::new() })
            .collect();
        bar(&segments, width)
    }

    #[test]
    fn known_bars() {
        let table: [(&[u64], &str); 8] = [
            (&[50, 50], "aaaaabbbbb"),
            (&[90, 10], "aaaaaaaaab"),
            (&[1_000, 1], "aaaaaaaaa▏"),
            (&[1, 1_000_000, 1], "▏bbbbbbbb▏"),
            (&[0, 7], "bbbbbbbbbb"),
            (&[0, 0], ""),
            (&[], ""),
            (&[u64::MAX, u64::MAX, u64::MAX], "aaabbbbccc"),
        ];
        for (lengths, expected) in table {
            assert_eq!(plain(lengths, 10), expected, "{lengths:?}");
        }
    }

    proptest! {
        #[test]
        fn a_bar_is_as_wide_as_told_and_hides_nothing(lengths in proptest::collection::vec(0_u64..1_000_000, 1..5)) {
            let bar = plain(&lengths, 40);
            let expected = if lengths.iter().all(|l| *l == 0) { 0 } else { 40 };
            prop_assert_eq!(bar.chars().count(), expected);
            let slivers = bar.chars().filter(|c| *c == SLIVER).count();
            let seen = "abcde".chars().filter(|c| bar.contains(*c)).count() + slivers;
            prop_assert_eq!(seen, lengths.iter().filter(|l| **l > 0).count());
        }
    }
}
