//! Where a record comes from (open-types.md, sections 1 and 3).

use crate::macros::{record, words};
use crate::profile::UnifiedProtocolProfile;
use crate::transport::UnifiedTransportMetadata;
use crate::{Sha256, Timestamp, UnifiedId};

record! {
    /// The three attributions: what the source does not tell is absent, never guessed.
    #[derive(Default, Eq)]
    pub struct UnifiedAttribution {
        /// The runtime that produced it: an agent, a client family, or `throughline`. Not the upstream service.
        provider?: String,
        /// The vendor of the model.
        model_provider?: String,
        /// The exact slug that the provider resolved, else the one requested.
        model?: String,
    }
}
words! {
    /// Who wrote an item.
    pub enum ItemOrigin { Client = "client", Provider = "provider", Engine = "engine", Import = "import", }
}
words! {
    /// Why the engine made an item.
    pub enum Synthetic { Repair = "repair", Placeholder = "placeholder", Summary = "summary", }
}
record! {
    /// Where an item comes from.
    pub struct UnifiedItemProvenance {
        /// Who wrote it.
        origin: ItemOrigin,
        /// Runtime, vendor, model.
        attribution: UnifiedAttribution,
        /// Wire form it was decoded from; absent for engine items.
        profile?: UnifiedProtocolProfile,
        /// Operation that made it.
        operation_id?: UnifiedId,
        /// Request that carried it.
        request_id?: UnifiedId,
        /// Response that carried it.
        response_id?: UnifiedId,
        /// Set on engine-made stand-ins.
        synthetic?: Synthetic,
        /// The source itself marked content as cut; never false.
        truncated?: bool,
    }
}

impl UnifiedItemProvenance {
    /// Provenance with an origin and nothing else told.
    pub fn of(origin: ItemOrigin) -> Self {
        Self {
            origin,
            attribution: UnifiedAttribution::default(),
            profile: None,
            operation_id: None,
            request_id: None,
            response_id: None,
            synthetic: None,
            truncated: None,
        }
    }
}

words! {
    /// What became of an attempt.
    pub enum AttemptOutcome { Failed = "failed", Fallback = "fallback", Used = "used", }
}
record! {
    /// One attempt to get an answer.
    pub struct UnifiedAttempt {
        /// Target of the attempt.
        attribution: UnifiedAttribution,
        /// What became of it.
        outcome: AttemptOutcome,
        /// Our error code.
        error_code?: String,
    }
}
record! {
    /// Where a result comes from. Nothing here differs between a stream and the same response unstreamed.
    pub struct UnifiedResponseProvenance {
        /// Upstream wire.
        profile: UnifiedProtocolProfile,
        /// Runtime, vendor, model.
        attribution: UnifiedAttribution,
        /// Our request.
        request_id?: UnifiedId,
        /// The provider's trace ID for support; not a handle.
        provider_request_id?: String,
        /// All attempts, when there was more than one.
        attempts?: Vec<UnifiedAttempt>,
    }
}
words! {
    /// How a request came in.
    pub enum RequestOrigin { Client = "client", Import = "import", Engine = "engine", }
}
record! {
    /// A transcript that was imported.
    pub struct ImportSource {
        /// Runtime that wrote it.
        runtime: String,
        /// Its version.
        runtime_version?: String,
        /// Digest of the file.
        source_sha256: Sha256,
    }
}
record! {
    /// Where a request comes from.
    pub struct UnifiedSourceProvenance {
        /// Inbound wire.
        profile: UnifiedProtocolProfile,
        /// How it came in.
        origin: RequestOrigin,
        /// When.
        received_at: Timestamp,
        /// Allowlisted word, never a raw user agent.
        client_family?: String,
        /// Safe transport metadata.
        transport?: UnifiedTransportMetadata,
        /// The transcript, when imported.
        import?: ImportSource,
    }
}
