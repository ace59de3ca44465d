//! Conversations of the native API: /unified/v2/conversations and what stands below it.

use super::App;
use super::address::{Parameters, PathId};
use super::failure::{Failure, done, json};
use super::gate::Scope;
use super::lists::{self, Page};
use super::view::View;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use throughline_engine::{ConversationQuery, ItemQuery, NewConversation, NewItems, Principal};
use throughline_format::metadata::UnifiedSemanticMetadata;
use throughline_format::{Timestamp, UnifiedError, UnifiedId, UnifiedItem};
use throughline_store::Order;

/// What every handler here needs.
type Asked = (State<Arc<App>>, Extension<Scope>, Extension<Principal>);

fn answer(scope: &Scope, status: StatusCode, outcome: Result<String, UnifiedError>) -> Response<Body> {
    match outcome {
        Ok(body) => json(status, body),
        Err(error) => Failure::from(error).respond(scope),
    }
}

fn written(record: &impl Serialize) -> Result<String, UnifiedError> {
    Ok(View::of(record)?.to_json())
}

fn conversation_id(text: &str) -> Result<UnifiedId, UnifiedError> {
    lists::id(text, "conversation")
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    metadata: Option<UnifiedSemanticMetadata>,
    #[serde(default)]
    items: Vec<UnifiedItem>,
}

/// POST: begins a conversation.
pub(super) async fn create((State(app), Extension(scope), Extension(principal)): Asked, headers: HeaderMap, body: Body) -> Response<Body> {
    let created = async {
        let Create { title, metadata, items } = app.read_json(&headers, body).await?;
        let new = NewConversation { title, metadata, items };
        let (_, summary) = app.engine.create_conversation(&principal, new).await?;
        written(&summary)
    };
    answer(&scope, StatusCode::CREATED, created.await)
}

/// Which conversations to list.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Filter {
    updated_since: Option<String>,
    after: Option<String>,
    limit: Option<String>,
}

/// GET: conversations, the one updated last first.
pub(super) async fn list(
    (State(app), Extension(scope), Extension(principal)): Asked,
    Parameters(filter): Parameters<Filter>,
) -> Response<Body> {
    let listed = async {
        let time = |text: &str| {
            Timestamp::parse(text).map_err(|_| lists::invalid("expected a time such as 2026-01-01T00:00:00.000Z in ?updatedSince="))
        };
        let query = ConversationQuery {
            updated_since: filter.updated_since.as_deref().map(time).transpose()?,
            after: filter.after.as_deref().map(conversation_id).transpose()?,
            limit: lists::limit(filter.limit.as_deref())?,
        };
        let found = app.engine.conversations(&principal, query).await?;
        let mut page = Page::default();
        for (id, summary) in &found.conversations {
            if !page.push(id, View::of(summary)?) {
                break;
            }
        }
        Ok(page.to_json(found.has_more))
    };
    answer(&scope, StatusCode::OK, listed.await)
}

/// GET: one conversation.
pub(super) async fn one((State(app), Extension(scope), Extension(principal)): Asked, PathId(id): PathId) -> Response<Body> {
    let found = async { written(&app.engine.conversation(&principal, &conversation_id(&id)?).await?) };
    answer(&scope, StatusCode::OK, found.await)
}

/// DELETE: 204, or 409 while an operation of it runs.
pub(super) async fn delete((State(app), Extension(scope), Extension(principal)): Asked, PathId(id): PathId) -> Response<Body> {
    let deleted = async { app.engine.delete_conversation(&principal, &conversation_id(&id)?).await };
    match deleted.await {
        Ok(()) => done(),
        Err(error) => Failure::from(error).respond(&scope),
    }
}

/// GET: the branches, oldest first.
pub(super) async fn branches((State(app), Extension(scope), Extension(principal)): Asked, PathId(id): PathId) -> Response<Body> {
    let listed = async {
        let mut page = Page::default();
        for branch in app.engine.branches(&principal, &conversation_id(&id)?).await? {
            if !page.push(&branch.branch_id, View::of(&branch)?) {
                break;
            }
        }
        Ok(page.to_json(false))
    };
    answer(&scope, StatusCode::OK, listed.await)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Fork {
    from_item_id: UnifiedId,
}

/// POST: a branch that leaves the history after an item.
pub(super) async fn fork(
    (State(app), Extension(scope), Extension(principal)): Asked,
    PathId(id): PathId,
    headers: HeaderMap,
    body: Body,
) -> Response<Body> {
    let forked = async {
        let id = conversation_id(&id)?;
        let Fork { from_item_id } = app.read_json(&headers, body).await?;
        written(&app.engine.fork(&principal, &id, &from_item_id).await?)
    };
    answer(&scope, StatusCode::CREATED, forked.await)
}

/// Which items to read.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ItemFilter {
    branch: Option<String>,
    after: Option<String>,
    order: Option<String>,
    limit: Option<String>,
}

/// GET: the items of a branch.
pub(super) async fn items(
    (State(app), Extension(scope), Extension(principal)): Asked,
    PathId(id): PathId,
    Parameters(filter): Parameters<ItemFilter>,
) -> Response<Body> {
    let listed = async {
        let query = ItemQuery {
            branch: filter.branch.as_deref().map(|id| lists::id(id, "branch")).transpose()?,
            after: filter.after.as_deref().map(|id| lists::id(id, "item")).transpose()?,
            order: match filter.order.as_deref() {
                None | Some("asc") => Order::Ascending,
                Some("desc") => Order::Descending,
                Some(_) => return Err(lists::invalid("expected asc or desc in ?order=")),
            },
            limit: lists::limit(filter.limit.as_deref())?,
        };
        let found = app.engine.items(&principal, &conversation_id(&id)?, query).await?;
        let mut page = Page::default();
        for item in &found.items {
            if !page.push(&item.id, View::of(item)?) {
                break;
            }
        }
        Ok(page.to_json(found.has_more))
    };
    answer(&scope, StatusCode::OK, listed.await)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Append {
    #[serde(default)]
    branch_id: Option<UnifiedId>,
    #[serde(default)]
    expected_head: Option<UnifiedId>,
    items: Vec<UnifiedItem>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Appended<'a> {
    items: &'a [UnifiedItem],
    head_item_id: Option<&'a UnifiedId>,
}

/// POST: appends items to a branch.
pub(super) async fn append(
    (State(app), Extension(scope), Extension(principal)): Asked,
    PathId(id): PathId,
    headers: HeaderMap,
    body: Body,
) -> Response<Body> {
    let appended = async {
        let id = conversation_id(&id)?;
        let asked: Append = app.read_json(&headers, body).await?;
        let new = NewItems {
            branch: asked.branch_id,
            expected_head: asked.expected_head,
            items: asked.items,
        };
        let items = app.engine.append_items(&principal, &id, new).await?;
        written(&Appended {
            items: &items,
            head_item_id: items.last().map(|item| &item.id),
        })
    };
    answer(&scope, StatusCode::CREATED, appended.await)
}
