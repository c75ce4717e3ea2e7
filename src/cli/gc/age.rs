//! How old something must be: `now`, `never`, `14d`, or as git writes it, `2.weeks.ago`.

use std::time::Duration;

use znippy::archive::Expire;

const UNITS: [(&str, u64); 5] = [
    ("second", 1),
    ("minute", 60),
    ("hour", 3600),
    ("day", 86_400),
    ("week", 604_800),
];

/// Parses an age.
///
/// # Errors
/// Says what would be one.
pub fn parse(text: &str) -> Result<Expire, String> {
    match text {
        "now" => return Ok(Expire::Now),
        "never" => return Ok(Expire::Never),
        _ => {}
    }
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start_matches(['.', ' ']);
    let unit = unit.strip_suffix("ago").unwrap_or(unit).trim_end_matches(['.', ' ']);
    let is_unit = |name: &str| unit == &name[..1] || unit == name || unit.strip_suffix('s') == Some(name);
    let seconds = UNITS
        .iter()
        .find(|(name, _)| is_unit(name))
        .map(|(_, seconds)| *seconds);
    let age = seconds.zip(number.parse::<u64>().ok());
    age.and_then(|(seconds, number)| number.checked_mul(seconds))
        .map(|seconds| Expire::After(Duration::from_secs(seconds)))
        .ok_or_else(|| "expected now, never, or an age such as 14d or 2.weeks".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_parsed() {
        let after = |seconds| Ok(Expire::After(Duration::from_secs(seconds)));
        assert_eq!(parse("now"), Ok(Expire::Now));
        assert_eq!(parse("never"), Ok(Expire::Never));
        assert_eq!(parse("14d"), after(14 * 86_400));
        assert_eq!(parse("0s"), after(0));
        for two_weeks in ["2w", "2.weeks", "2.weeks.ago", "2 weeks ago", "2week"] {
            assert_eq!(parse(two_weeks), after(1_209_600), "{two_weeks}");
        }
        for bad in [
            "",
            "d",
            "14",
            "-1d",
            "14x",
            "yesterday",
            "99999999999999999999w",
            "9999999999999999999w",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
