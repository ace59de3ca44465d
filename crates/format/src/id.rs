//! [`UnifiedId`] and the IDs derived from an operation (architecture.md, Decisions, Identity).

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::sync::Arc;

/// Longest ID, in characters.
pub const MAX_ID_LENGTH: usize = 128;

/// An opaque identifier: 1 to 128 characters of `[A-Za-z0-9_.:-]`. Cloning is cheap.
///
/// IDs are never authorisation. Provider handles are not IDs; they are sealed (open-types.md, section 0).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnifiedId(Arc<str>);

/// A text that is no [`UnifiedId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an ID has 1 to 128 characters of A-Z a-z 0-9 _ . : -")]
pub struct InvalidId;

impl UnifiedId {
    /// Conversation and branch of an item that is not in a journal yet (open-types.md, section 1).
    pub const PENDING: &'static str = "pending";
    /// Operation of the stand-alone commands.
    pub const OFFLINE_OPERATION: &'static str = "op_offline";

    /// Checks and takes a text.
    ///
    /// # Errors
    /// [`InvalidId`] when length or alphabet are wrong.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let legal = (1..=MAX_ID_LENGTH).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b));
        if legal { Ok(Self(text.into())) } else { Err(InvalidId) }
    }

    /// The ID `pending`.
    pub fn pending() -> Self {
        Self(Self::PENDING.into())
    }

    /// The operation `op_offline`.
    pub fn offline_operation() -> Self {
        Self(Self::OFFLINE_OPERATION.into())
    }

    /// Item number `ordinal` (from 0) of an operation: `OP.i3`.
    #[must_use]
    pub fn item(&self, ordinal: u64) -> Self {
        self.child('i', ordinal)
    }

    /// Part number `ordinal` (from 0) of an item: `OP.i3.p0`.
    #[must_use]
    pub fn part(&self, ordinal: u64) -> Self {
        self.child('p', ordinal)
    }

    /// Event with this sequence of an operation: `OP.e17`.
    #[must_use]
    pub fn event(&self, sequence: u64) -> Self {
        self.child('e', sequence)
    }

    /// Side resource number `ordinal` of an operation, item or part: `OP.i3.r0`.
    #[must_use]
    pub fn resource(&self, ordinal: u64) -> Self {
        self.child('r', ordinal)
    }

    /// Tool definition number `ordinal` of a request: `OP.t3`.
    #[must_use]
    pub fn tool(&self, ordinal: u64) -> Self {
        self.child('t', ordinal)
    }

    fn child(&self, mark: char, ordinal: u64) -> Self {
        let child = format!("{}.{mark}{ordinal}", self.0);
        if child.len() <= MAX_ID_LENGTH {
            return Self(child.into());
        }
        // A parent near the limit is named by its digest: still one to one, and short enough for two more levels.
        Self(format!("{}.{mark}{ordinal}", crate::Sha256::of(self.0.as_bytes())).into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the literal `pending`.
    pub fn is_pending(&self) -> bool {
        &*self.0 == Self::PENDING
    }
}

impl std::fmt::Display for UnifiedId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::fmt::Debug for UnifiedId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for UnifiedId {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        Self::parse(text)
    }
}

impl AsRef<str> for UnifiedId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Serialize for UnifiedId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for UnifiedId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}
