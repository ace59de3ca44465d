//! Durations and sizes as the file writes them: `"30s"`, `"32MiB"`.

use std::time::Duration;

/// Reads a duration: a whole number and `ms`, `s`, `m`, `h` or `d`.
pub fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(millis).map(Duration::from_millis)
}

/// Reads a size: a whole number and `B`, `KiB`, `MiB`, `GiB`, `kB`, `MB` or `GB`.
pub fn size(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let bytes = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    number.checked_mul(bytes)
}

fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        for (text, expected) in [
            ("30s", Some(30_000)),
            ("250ms", Some(250)),
            ("2 m", Some(120_000)),
            ("7d", Some(604_800_000)),
            ("30", None),
            ("s", None),
            ("-1s", None),
            ("1.5s", None),
        ] {
            assert_eq!(duration(text), expected.map(Duration::from_millis), "{text}");
        }
        for (text, expected) in [
            ("32MiB", Some(33_554_432)),
            ("1GB", Some(1_000_000_000)),
            ("10B", Some(10)),
            ("10", None),
            ("10mb", None),
            ("99999999999999999999GiB", None),
            ("18446744073709551615KiB", None),
        ] {
            assert_eq!(size(text), expected, "{text}");
        }
    }
}
