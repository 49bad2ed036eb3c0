//! Numbers with at most three significant digits and a unit.

/// Units of time, ascending: how many nanoseconds each has, and its sign.
const UNITS: [(f64, &str); 6] =
    [(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s"), (60e9, "min"), (3_600e9, "h")];
/// Seconds are shown up to this; then minutes say more.
const SECONDS_MAX: f64 = 600.0;

/// A length with three significant digits: its number and its unit.
fn parts(ns: u64) -> (String, &'static str) {
    if ns == 0 {
        return ("0".to_owned(), "s");
    }
    let mut shown = (String::new(), "");
    for (unit_ns, sign) in UNITS {
        let value = ns as f64 / unit_ns;
        let number = significant(value, if sign == "ns" { 0 } else { 2 });
        // As rounded: 999.6 µs is 1.00 ms.
        let limit = match sign {
            "s" => SECONDS_MAX,
            "min" => 600.0,
            "h" => f64::INFINITY,
            _ => 1000.0,
        };
        let below = number.parse::<f64>().is_ok_and(|rounded| rounded < limit);
        shown = (number, sign);
        if below {
            break;
        }
    }
    shown
}

/// Three significant digits of a value, with at most `decimals` of them after the point.
fn significant(value: f64, decimals: usize) -> String {
    let by_size = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.*}", by_size.min(decimals))
}

/// A length such as `6.08 s`, `31.0 ms` or `850 ns`.
pub(crate) fn duration(ns: u64) -> String {
    let (number, unit) = parts(ns);
    format!("{number} {unit}")
}

/// The same for a column of [`CELL_WIDTH`]: numbers and units below each other.
pub(super) fn duration_cell(ns: Option<u64>) -> String {
    match ns {
        Some(ns) => {
            let (number, unit) = parts(ns);
            format!("{number:>4} {unit:<3}")
        }
        None => format!("{:>4} {:<3}", "–", ""),
    }
}

/// The width of [`duration_cell`] for all but years.
pub(super) const CELL_WIDTH: usize = 8;

/// A share of 1 such as `99.8 %`. Only all is `100 %` and only nothing is `0 %`.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p <= 0.0 => "0 %".to_owned(),
        p if p < 0.05 => "<0.1 %".to_owned(),
        p if p >= 100.0 => "100 %".to_owned(),
        p if p >= 99.95 => ">99.9 %".to_owned(),
        p => format!("{p:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        let table = [
            (0, "0 s"),
            (1, "1 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (30_000, "30.0 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (1_900_000, "1.90 ms"),
            (9_994_999, "9.99 ms"),
            (9_995_000, "10.0 ms"),
            (99_950_000, "100 ms"),
            (410_400_000, "410 ms"),
            (6_080_000_000, "6.08 s"),
            (86_443_000_000, "86.4 s"),
            (599_400_000_000, "599 s"),
            (599_500_000_000, "9.99 min"),
            (3_600_000_000_000, "60.0 min"),
            (36_000_000_000_000, "10.0 h"),
            (u64::MAX, "5124096 h"),
        ];
        for (ns, expected) in table {
            assert_eq!(duration(ns), expected, "{ns}");
        }
        assert_eq!(duration_cell(Some(6_080_000_000)), "6.08 s  ");
        assert_eq!(duration_cell(None), "   –    ");
    }

    #[test]
    fn only_all_is_100_percent() {
        let shares = [0.0, 1e-9, 0.0005, 0.9, 0.9994, 0.9995, 1.0 - 1e-9, 1.0];
        let shown = ["0 %", "<0.1 %", "0.1 %", "90.0 %", "99.9 %", ">99.9 %", ">99.9 %", "100 %"];
        assert_eq!(shares.map(percent), shown);
    }

    proptest! {
        #[test]
        fn the_number_is_right_to_half_a_percent(ns in 1_u64..3_590_000_000_000_000) {
            let (number, unit) = parts(ns);
            let unit_ns = UNITS.iter().find(|(_, sign)| *sign == unit).unwrap().0;
            let shown_ns = number.parse::<f64>().unwrap() * unit_ns;
            prop_assert!((shown_ns - ns as f64).abs() <= ns as f64 * 0.005_001, "{ns}: {number} {unit}");
            prop_assert!(number.chars().filter(char::is_ascii_digit).count() <= 3);
            prop_assert_eq!(duration_cell(Some(ns)).chars().count(), CELL_WIDTH);
        }
    }
}
