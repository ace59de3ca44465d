//! POST /unified/v2/conversations/{id}/compact: a summary in place of the beginning of a branch.

use super::App;
use super::failure::{Failure, json};
use super::gate::Scope;
use super::view::View;
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::Deserialize;
use std::sync::Arc;
use throughline_engine::{CompactRequest, Principal};
use throughline_format::{ErrorCategory, UnifiedContentPart, UnifiedError, UnifiedId};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct CompactBody {
    #[serde(default)]
    branch_id: Option<UnifiedId>,
    through_item_id: UnifiedId,
    summary: Vec<UnifiedContentPart>,
}

/// POST: appends the summary. 201 with the item.
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(scope): Extension<Scope>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response<Body> {
    let compacted = async {
        let conversation_id =
            UnifiedId::parse(&id).map_err(|_| UnifiedError::new(ErrorCategory::NotFound, "resource", "there is no such conversation"))?;
        let body = app.read_body(&headers, body).await?;
        let body: CompactBody = serde_json::from_slice(&body).map_err(|error| {
            let place = format!("line {} column {}", error.line(), error.column());
            let expected = "expected {\"branchId\"?: string, \"throughItemId\": string, \"summary\": part[]}";
            UnifiedError::new(ErrorCategory::InvalidRequest, "json", format!("{expected}, {place}"))
        })?;
        let request = CompactRequest {
            conversation_id,
            branch_id: body.branch_id,
            through_item_id: body.through_item_id,
            summary: body.summary,
        };
        let item = app.engine.compact(&principal, request).await?;
        Ok::<_, UnifiedError>(View::of(&item)?.to_json())
    };
    match compacted.await {
        Ok(body) => json(StatusCode::CREATED, body),
        Err(error) => Failure::from(error).respond(&scope),
    }
}
