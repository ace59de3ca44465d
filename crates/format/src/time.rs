//! [`Timestamp`]: a point in time as the format writes it.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;

/// Milliseconds since 1970-01-01T00:00:00Z; in JSON RFC 3339 UTC with milliseconds. Nothing in this crate reads a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// A text that is no RFC 3339 time within years 0 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an RFC 3339 time such as 2026-01-31T12:00:00.000Z")]
pub struct InvalidTime;

/// 9999-12-30T22:00:00.999Z, the last time that has a year of four digits at every offset.
const LAST_MILLIS: i64 = 253_402_207_200_999;
/// 0000-01-01T00:00:00.000Z.
const FIRST_MILLIS: i64 = -62_167_219_200_000;

impl Timestamp {
    /// 1970-01-01T00:00:00.000Z, the time of stand-alone commands where the source gives none.
    pub const EPOCH: Self = Self(0);

    /// From milliseconds since the epoch; values outside the years 0 to 9999 are clamped (the last is 9999-12-30T22:00:00.999Z).
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(FIRST_MILLIS, LAST_MILLIS))
    }

    /// From seconds since the epoch, as OpenAI's `created` gives them.
    pub fn from_seconds(seconds: i64) -> Self {
        Self::from_millis(seconds.saturating_mul(1_000))
    }

    /// Milliseconds since the epoch.
    pub fn millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// This time moved by `millis`.
    #[must_use]
    pub fn plus_millis(self, millis: i64) -> Self {
        Self::from_millis(self.0.saturating_add(millis))
    }

    /// Reads RFC 3339 with any offset; fractions beyond milliseconds are cut.
    ///
    /// # Errors
    /// [`InvalidTime`] when the text is not such a time.
    pub fn parse(text: &str) -> Result<Self, InvalidTime> {
        let time: jiff::Timestamp = text.parse().map_err(|_| InvalidTime)?;
        let millis = i64::try_from(time.as_nanosecond().div_euclid(1_000_000)).map_err(|_| InvalidTime)?;
        if (FIRST_MILLIS..=LAST_MILLIS).contains(&millis) {
            Ok(Self(millis))
        } else {
            Err(InvalidTime)
        }
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let time = jiff::Timestamp::from_nanosecond(i128::from(self.0) * 1_000_000).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        write!(f, "{time:.3}")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling() {
        for (text, written) in [
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"),
            ("2026-11-30T19:00:00.1239+01:00", "2026-11-30T18:00:00.123Z"),
            ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"),
            ("1969-12-31T23:59:59.9999Z", "1969-12-31T23:59:59.999Z"),
            ("9999-12-30T22:00:00.999Z", "9999-12-30T22:00:00.999Z"),
            ("0000-01-01T00:00:00.000Z", "0000-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(Timestamp::parse(text).unwrap().to_string(), written);
        }
        for text in ["9999-12-31T23:59:59.999Z", "yesterday", "-000001-12-31T23:59:59.999Z", "2026-01-31"] {
            assert_eq!(Timestamp::parse(text), Err(InvalidTime), "{text}");
        }
        for millis in [i64::MIN, i64::MAX] {
            let time = Timestamp::from_millis(millis);
            assert_eq!(Timestamp::parse(&time.to_string()), Ok(time), "{millis}");
        }
    }
}
