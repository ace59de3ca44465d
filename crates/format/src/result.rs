//! [`UnifiedResultV2`] (spec, Root records; open-types.md, sections 3, 4 and 7).

use crate::error::UnifiedError;
use crate::item::UnifiedItem;
use crate::loss::UnifiedLossReport;
use crate::macros::record;
use crate::profile::SchemaVersion;
use crate::provenance::UnifiedResponseProvenance;
use crate::resource::UnifiedProviderResourceRef;
use crate::status::UnifiedResponseStatus;
use crate::usage::UnifiedUsage;
use crate::{Count, UnifiedId};

record! {
    /// The model that answered.
    pub struct UnifiedResolvedModel {
        /// As requested.
        requested?: String,
        /// As resolved.
        model: String,
        /// Vendor.
        model_provider?: String,
        /// Family, as the owner rule groups models.
        family?: String,
        /// Dated revision, when reported apart from the slug.
        version?: String,
        /// Class of service, as reported.
        service_tier?: String,
    }
}
record! {
    /// State that a result made or ended.
    #[derive(Default)]
    pub struct UnifiedStateOutput {
        /// Checkpoints at this result's head.
        checkpoints: Vec<UnifiedId>,
        /// Resources made or renewed.
        resources: Vec<UnifiedProviderResourceRef>,
        /// Checkpoints or resources that the provider declared unusable.
        invalidated: Vec<UnifiedId>,
    }
}
record! {
    /// Another candidate than the branch's.
    pub struct UnifiedAlternative {
        /// Index of the candidate, from 1.
        index: Count,
        /// How it ended.
        status: UnifiedResponseStatus,
        /// Its items.
        output: Vec<UnifiedItem>,
    }
}
record! {
    /// A result.
    pub struct UnifiedResultV2 {
        /// Always 2.0.
        schema_version: SchemaVersion,
        /// Its ID.
        response_id: UnifiedId,
        /// Conversation.
        conversation_id?: UnifiedId,
        /// Operation.
        operation_id?: UnifiedId,
        /// The model that answered.
        model: UnifiedResolvedModel,
        /// How it stands.
        status: UnifiedResponseStatus,
        /// Items in order.
        output: Vec<UnifiedItem>,
        /// Usage.
        usage?: UnifiedUsage,
        /// Error.
        error?: UnifiedError,
        /// State made or ended.
        state?: UnifiedStateOutput,
        /// Where it comes from.
        provenance: UnifiedResponseProvenance,
        /// What was lost.
        loss?: UnifiedLossReport,
        /// Other candidates.
        alternatives?: Vec<UnifiedAlternative>,
    }
}
