//! [`UserMap`]: a map whose keys are data, not member names of a record.

use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;

/// Name under which a [`UserMap`] announces itself to serialisers of this crate.
pub const USER_MAP_MARK: &str = "$unified::user-map";

/// A map with free keys (labels, counters by modality), always in key order.
///
/// It differs from a plain map in one way: the content hash skips record members such as `id`, but never a key in here.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct UserMap<V>(pub BTreeMap<String, V>);

impl<V: Serialize> Serialize for UserMap<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(USER_MAP_MARK, &self.0)
    }
}

impl<V> UserMap<V> {
    /// Tells whether the map has no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<V> FromIterator<(String, V)> for UserMap<V> {
    fn from_iter<I: IntoIterator<Item = (String, V)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}
