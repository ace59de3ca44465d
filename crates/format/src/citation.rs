//! Citations, sources and spans (open-types.md, section 5).

use crate::macros::{open_words, record, standalone_union, tagged_union, words};
use crate::media::UnifiedIndexUnit;
use crate::resource::UnifiedProviderResourceRef;
use crate::{Count, UnifiedId};

words! {
    /// Which text a span is of.
    pub enum SpanOf { Answer = "answer", Source = "source", }
}
record! {
    /// A stretch of text in the source's own unit; the end is exclusive.
    pub struct UnifiedSpan {
        /// Which text.
        of: SpanOf,
        /// First index.
        start: Count,
        /// Index after the last.
        end: Count,
        /// What the indexes count.
        unit: UnifiedIndexUnit,
        /// The part of the journal, when it is one.
        part_id?: UnifiedId,
    }
}
open_words! {
    /// Kind of a source.
    pub enum SourceType {
        Web = "web", Document = "document", File = "file", Search = "search", Place = "place", Image = "image", Code = "code",
    }
}
record! {
    /// Something that an answer rests on.
    pub struct UnifiedSource {
        /// Its ID.
        source_id: UnifiedId,
        /// Kind.
        r#type: SourceType,
        /// Address.
        uri?: String,
        /// Title.
        title?: String,
        /// Sealed handle.
        resource?: UnifiedProviderResourceRef,
        /// The vendor's count over the request's documents.
        document_index?: Count,
        /// Item of the document.
        document_item_id?: UnifiedId,
        /// Part of the document.
        document_part_id?: UnifiedId,
        /// Licence.
        license?: String,
        /// When it was published, as the source says it.
        published_at?: String,
    }
}
open_words! {
    /// What a citation does to the content.
    pub enum SupportRelation { Supports = "supports", Quotes = "quotes", Recites = "recites", Mentions = "mentions", }
}
record! {
    /// The content that a citation is about; without a span of the answer it is the whole part.
    pub struct Support {
        /// The part.
        part_id: UnifiedId,
        /// What the citation does to it.
        relation: SupportRelation,
    }
}
record! {
    /// A citation with everything that the vendor told.
    pub struct UnifiedCitation {
        /// What is cited.
        source: UnifiedSource,
        /// The words that are cited.
        quoted_text?: String,
        /// What it supports in the answer first, then where it stands in the source.
        spans?: Vec<UnifiedSpan>,
        /// The supported content.
        supports?: Support,
        /// 0 to 1.
        confidence?: f64,
        /// Queries that found it.
        queries?: Vec<String>,
        /// When it was read.
        retrieved_at?: crate::Timestamp,
    }
}
record! {
    /// A path of a file that the answer speaks of.
    #[derive(Default)]
    pub struct FilePathAnnotation {
        /// The file as an artifact.
        artifact_id?: UnifiedId,
        /// The file at a provider.
        resource?: UnifiedProviderResourceRef,
        /// Where the path stands.
        span?: UnifiedSpan,
    }
}
record! {
    /// How text is to be spoken.
    #[derive(Default)]
    pub struct SpeechAnnotation {
        /// Speaker.
        speaker?: String,
        /// Style.
        style?: String,
        /// Where.
        span?: UnifiedSpan,
    }
}
tagged_union! {
    /// A remark on text.
    #[allow(clippy::large_enum_variant)] // nearly every remark is a citation
    pub enum UnifiedTextAnnotation {
        /// A citation.
        Citation(UnifiedCitation) = "citation",
        /// A file path.
        FilePath(FilePathAnnotation) = "file-path",
        /// Speech.
        Speech(SpeechAnnotation) = "speech",
    }
}
standalone_union!(UnifiedTextAnnotation);
