//! Canonical form, fingerprint and content hash (open-types.md, section 11; spec, Validation and canonicalization).
//!
//! Rules, by type:
//! * record: members sorted by their names as UTF-16, as RFC 8785 does; absent members are absent;
//! * list: in its order, which is semantic for items and parts;
//! * text: JSON string with the escapes of RFC 8785;
//! * number: as RFC 8785; an integer beyond ±(2^53-1) is refused, because two of them would share one form;
//! * [`Json`](crate::Json): its text as it was written, byte for byte;
//! * inline data and artifact sources: `{"kind":"content","sha256":…}` over the decoded bytes, so that moving data to the
//!   artifact store changes no fingerprint; the media type of inline data counts as the part's `media.mediaType`.
//!
//! Vectors that another implementation can run stand in `schema/vectors`.
//!
//! The fingerprint is SHA-256 over these bytes. The content hash is the same without IDs, times, provenance, cache marks
//! and provider data ([`CONTENT_SKIPS`]): a stream and the same response unstreamed share it.

mod writer;

pub(crate) use writer::RAW_VALUE_MARK;

use crate::Sha256;
use serde::Serialize;

/// Members that the content hash leaves out, wherever they stand in a record (never inside free maps or opaque JSON):
/// IDs of this format and of calls, times at which something was made or ends, provenance, cache marks, provider data.
///
/// `source` of a root record is provenance too and left out; `source` of a part is content. `retrievedAt` and
/// `publishedAt` are content: the provider tells them.
pub const CONTENT_SKIPS: &[&str] = &[
    // IDs.
    "id",
    "conversationId",
    "branchId",
    "parentId",
    "itemId",
    "partId",
    "callId",
    "approvalId",
    "openCallIds",
    "eventId",
    "operationId",
    "requestId",
    "responseId",
    "providerRequestId",
    "traceId",
    "resourceId",
    "artifactId",
    "sourceId",
    "toolId",
    "documentItemId",
    "documentPartId",
    "headItemId",
    "afterItemId",
    "beforeItemId",
    "fromItemId",
    "toItemId",
    "sourceItemId",
    "sourceBranchId",
    "sourceHeadItemId",
    "inputItemIds",
    "itemIds",
    "resultId",
    "revisionId",
    "checkpointId",
    "checkpoints",
    "invalidated",
    "leaseId",
    "defaultBranchId",
    "parentBranchId",
    "forkItemId",
    "journalHeadItemId",
    "diagnosticRef",
    "headersRef",
    "webhookRef",
    "credentialRef",
    // Times.
    "sequence",
    "createdAt",
    "timestamp",
    "receivedAt",
    "expiresAt",
    "exportedAt",
    "startedAt",
    "updatedAt",
    "lastUpdatedAt",
    "endedAt",
    "cancelRequestedAt",
    "nextAt",
    "deadline",
    // The rest.
    "provenance",
    "cache",
    "providerData",
    "privateState",
    "privateLinkage",
];

/// Why a record has no canonical form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CanonicalError(pub(crate) String);

impl serde::ser::Error for CanonicalError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// The canonical bytes of a record.
///
/// # Errors
/// When a number is not finite or an integer lies beyond ±(2^53-1).
pub fn to_bytes<T: Serialize + ?Sized>(record: &T) -> Result<Vec<u8>, CanonicalError> {
    writer::write(record, false)
}

/// SHA-256 of the canonical form.
///
/// # Errors
/// As [`to_bytes`].
pub fn fingerprint<T: Serialize + ?Sized>(record: &T) -> Result<Sha256, CanonicalError> {
    to_bytes(record).map(|bytes| Sha256::of(&bytes))
}

/// SHA-256 of the canonical form without IDs, times, provenance, cache marks and provider data.
///
/// # Errors
/// As [`to_bytes`].
pub fn content_fingerprint<T: Serialize + ?Sized>(record: &T) -> Result<Sha256, CanonicalError> {
    writer::write(record, true).map(|bytes| Sha256::of(&bytes))
}
