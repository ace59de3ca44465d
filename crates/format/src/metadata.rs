//! Labels (open-types.md, section 1).

use crate::json::UserMap;
use crate::macros::record;

record! {
    /// Labels and an opaque end-user reference; no personal data.
    #[derive(Default)]
    pub struct UnifiedSemanticMetadata {
        /// At most 64 labels, keys up to 64 and values up to 512 characters.
        labels?: UserMap<String>,
        /// Opaque reference to the end user.
        end_user_ref?: String,
    }
}
