//! What is known of a citation that a wire does not say.

use throughline_format::citation::{SourceType, UnifiedCitation};

/// Members of a citation beside its address and its places that are in none of the wire's; `told` are those that it says.
pub(crate) fn untold(citation: &UnifiedCitation, told: &[&str]) -> Vec<&'static str> {
    let source = &citation.source;
    let known = [
        ("quotedText", citation.quoted_text.is_some()),
        ("supports", citation.supports.is_some()),
        ("confidence", citation.confidence.is_some()),
        ("queries", citation.queries.is_some()),
        ("retrievedAt", citation.retrieved_at.is_some()),
        // A source is of the web where nobody says another kind.
        ("source/type", source.r#type != SourceType::Web),
        ("source/title", source.title.is_some()),
        ("source/resource", source.resource.is_some()),
        ("source/documentIndex", source.document_index.is_some()),
        ("source/documentItemId", source.document_item_id.is_some()),
        ("source/documentPartId", source.document_part_id.is_some()),
        ("source/license", source.license.is_some()),
        ("source/publishedAt", source.published_at.is_some()),
    ];
    let is_untold = |(member, is_known): &(&'static str, bool)| *is_known && !told.contains(member);
    known.into_iter().filter(is_untold).map(|(member, _)| member).collect()
}
