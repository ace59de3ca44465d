//! POST /unified/v2/conversations/{id}/compact: a summary in place of the beginning of a branch.

use super::App;
use super::address::PathId;
use super::failure::{Failure, json};
use super::gate::Scope;
use super::lists;
use super::view::View;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode};
use serde::Deserialize;
use std::sync::Arc;
use throughline_engine::{CompactRequest, Principal};
use throughline_format::{UnifiedContentPart, UnifiedError, UnifiedId};

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
    PathId(id): PathId,
    headers: HeaderMap,
    body: Body,
) -> Response<Body> {
    let compacted = async {
        let conversation_id = lists::id(&id, "conversation")?;
        let body: CompactBody = app.read_json(&headers, body).await?;
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
