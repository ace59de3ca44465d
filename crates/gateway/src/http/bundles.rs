//! Conversations as bundles (contract.md, section 3): GET .../export and POST /unified/v2/import.

use super::App;
use super::address::{Parameters, PathId, switch};
use super::failure::{Failure, json};
use super::gate::Scope;
use super::lists;
use super::view::View;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use throughline_engine::{ImportIds, Principal};
use throughline_format::media::encode_base64;
use throughline_format::{Sha256, UnifiedError};

/// What is to be in the bundle.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Wanted {
    artifacts: Option<String>,
}

#[derive(Serialize)]
struct ArtifactLine<'a> {
    sha256: &'a Sha256,
    data: String,
}

/// GET: one line with the conversation, then, when asked for, one for each artifact.
pub(super) async fn export(
    State(app): State<Arc<App>>,
    Extension(scope): Extension<Scope>,
    Extension(principal): Extension<Principal>,
    PathId(id): PathId,
    Parameters(wanted): Parameters<Wanted>,
) -> Response<Body> {
    let exported = async {
        let id = lists::id(&id, "conversation")?;
        let with_artifacts = switch(wanted.artifacts.as_deref(), "artifacts")?;
        let bundle = app.engine.export(&principal, &id).await?;
        let unwritten = |_| UnifiedError::new(throughline_format::ErrorCategory::Internal, "json", "a record cannot be written");
        let mut lines = serde_json::to_vec(&bundle).map_err(unwritten)?;
        lines.push(b'\n');
        for artifact in bundle.artifacts.iter().filter(|_| with_artifacts) {
            let content = app.engine.artifact_content(artifact).await?;
            let line = ArtifactLine {
                sha256: &artifact.sha256,
                data: encode_base64(&content),
            };
            lines.extend(serde_json::to_vec(&line).map_err(unwritten)?);
            lines.push(b'\n');
        }
        Ok::<_, UnifiedError>(Bytes::from(lines))
    };
    match exported.await {
        Ok(lines) => {
            let mut response = json(StatusCode::OK, lines);
            response
                .headers_mut()
                .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/jsonl"));
            response
        }
        Err(error) => Failure::from(error).respond(&scope),
    }
}

/// Which IDs an import gets.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Import {
    keep_ids: Option<String>,
}

/// POST: the conversation of a bundle, with new IDs, or with `?keepIds=true` with its own when they are free.
pub(super) async fn import(
    State(app): State<Arc<App>>,
    Extension(scope): Extension<Scope>,
    Extension(principal): Extension<Principal>,
    Parameters(wanted): Parameters<Import>,
    headers: HeaderMap,
    body: Body,
) -> Response<Body> {
    let imported = async {
        let body = app.read_body(&headers, body).await?;
        let ids = if switch(wanted.keep_ids.as_deref(), "keepIds")? {
            ImportIds::Keep
        } else {
            ImportIds::New
        };
        let summary = app.engine.import(&principal, body, ids).await?;
        Ok::<_, UnifiedError>(View::of(&summary)?.to_json())
    };
    match imported.await {
        Ok(body) => json(StatusCode::CREATED, body),
        Err(error) => Failure::from(error).respond(&scope),
    }
}
