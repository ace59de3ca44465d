//! Session keys: what an agent calls the session that its request is of.
//!
//! They group and do not identify: one key covers titles, warm-ups and compactions beside the conversation itself. So a key never
//! outranks content. It settles between equal histories ([`super::find`]), and leads a request that repeats no answer to the
//! place where the very same was asked before in vain, or to the conversation that it sums up.

use super::chain::Link;
use super::find::{BranchPath, Home, Search};
use super::place::{self, Place};
use super::summary;
use crate::framed::framed;
use throughline_format::{OperationState, Sha256, UnifiedConversation, UnifiedError, UnifiedItem, UnifiedToolDefinition};
use throughline_store::{HashPurpose, SessionKeyRow, Vault};

/// Newest operations of a session among whose answers the one that a summary repeats is looked for.
const MAX_ANSWERS: usize = 32;

/// The session of a client, as the client names it. Only a keyed hash of it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSession {
    /// Word for the agent.
    pub family: String,
    /// The agent's own ID of the session.
    pub id: String,
    /// The subagent that asks, which has a history of its own.
    pub subagent: Option<String>,
    /// Whether the client says that it asks once more, because an answer did not reach it.
    pub asks_again: bool,
}

impl ClientSession {
    fn words(&self) -> [&[u8]; 3] {
        [
            self.family.as_bytes(),
            self.id.as_bytes(),
            self.subagent.as_deref().unwrap_or_default().as_bytes(),
        ]
    }

    /// The hash under which the session's operations are found.
    fn key(&self, vault: &Vault) -> Result<Sha256, UnifiedError> {
        hash(vault, &framed(&self.words()))
    }

    /// The hash under which those of them are found that asked the very same: equal atoms, instructions and tools.
    fn question(&self, vault: &Vault, link: Link, items: &[UnifiedItem], tools: &[UnifiedToolDefinition]) -> Result<Sha256, UnifiedError> {
        let tools = serde_json::to_vec(tools).unwrap_or_default();
        let mut words = self.words().to_vec();
        words.extend([link.hash.as_bytes().as_slice(), &tools]);
        for item in items.iter().filter(|item| item.is_instructions()) {
            words.push(item.role.map_or("", |role| role.as_str()).as_bytes());
            words.extend(item.parts().iter().filter_map(|part| part.as_text()).map(str::as_bytes));
        }
        hash(vault, &framed(&words))
    }
}

fn hash(vault: &Vault, words: &[u8]) -> Result<Sha256, UnifiedError> {
    vault.keyed_hash(HashPurpose::SessionKey, words).map_err(|e| e.to_unified())
}

/// The hashes that a request of a session is filed under.
pub(crate) struct SessionKeys {
    /// Of the session.
    pub(crate) session: Sha256,
    /// Of the question; absent when answers that were delivered say where it belongs.
    pub(crate) question: Option<Sha256>,
}

impl Search<'_> {
    /// The hashes of the request, when its client names a session.
    pub(super) fn session_keys(&self, link: Link, has_evidence: bool) -> Result<Option<SessionKeys>, UnifiedError> {
        let Some(session) = self.session else { return Ok(None) };
        let vault = &self.engine.vault;
        let question = (!has_evidence).then(|| session.question(vault, link, self.items, self.tools));
        Ok(Some(SessionKeys {
            session: session.key(vault)?,
            question: question.transpose()?,
        }))
    }

    /// The operations of this session, newest first.
    pub(super) async fn of_session(&self) -> Result<Vec<SessionKeyRow>, UnifiedError> {
        match self.session {
            Some(session) => self.rows_of(&session.key(&self.engine.vault)?).await,
            None => Ok(Vec::new()),
        }
    }

    async fn rows_of(&self, key: &Sha256) -> Result<Vec<SessionKeyRow>, UnifiedError> {
        let rows = self.engine.store.session_keys(self.principal_ref, key).await;
        rows.map_err(|e| e.to_unified())
    }

    /// Where a request without any answer of this gateway belongs by its session; `None` when it begins a conversation.
    pub(super) async fn by_session(&self, keys: &SessionKeys) -> Result<Option<(Home, Place)>, UnifiedError> {
        match self.asked_in_vain(keys).await? {
            Some(found) => Ok(Some(found)),
            None => self.summed_up(keys).await,
        }
    }

    /// The place where the very same was asked last, when nothing came of it or the client says that it asks again.
    async fn asked_in_vain(&self, keys: &SessionKeys) -> Result<Option<(Home, Place)>, UnifiedError> {
        let rows = match &keys.question {
            Some(question) => self.rows_of(question).await?,
            None => Vec::new(),
        };
        let Some(last) = rows.first() else { return Ok(None) };
        let store = &self.engine.store;
        let Some(operation) = store.operation(&last.operation_id).await.map_err(|e| e.to_unified())? else {
            return Ok(None);
        };
        if operation.state == OperationState::Completed && !self.session.is_some_and(|session| session.asks_again) {
            let result = store.result(&operation.operation_id).await.map_err(|e| e.to_unified())?;
            if result.is_some_and(|result| !result.output.is_empty()) {
                return Ok(None);
            }
        }
        let Some((conversation, path)) = self.home_of(last).await? else {
            return Ok(None);
        };
        let place = place::from_the_begin(self.items, &path.items, &|asked, known| asked == known);
        if place.shared_through.is_none() {
            return Ok(None);
        }
        let branch = self.branch(&last.branch_id).await?;
        Ok(Some((Home::new(conversation, branch, path), place)))
    }

    /// The conversation of this session that the request holds a summary of.
    async fn summed_up(&self, keys: &SessionKeys) -> Result<Option<(Home, Place)>, UnifiedError> {
        let texts = summary::texts(self.items);
        if texts.is_empty() {
            return Ok(None);
        }
        let rows = self.rows_of(&keys.session).await?;
        for row in rows.iter().take(MAX_ANSWERS) {
            let result = self.engine.store.result(&row.operation_id).await.map_err(|e| e.to_unified())?;
            if !result.is_some_and(|result| summary::repeats(&texts, &result.output)) {
                continue;
            }
            let Some((conversation, path)) = self.home_of(row).await? else {
                continue;
            };
            if let Some(place) = summary::of_session(self.items, &path.items) {
                let branch = self.branch(&row.branch_id).await?;
                return Ok(Some((Home::new(conversation, branch, path), place)));
            }
        }
        Ok(None)
    }

    async fn home_of(&self, row: &SessionKeyRow) -> Result<Option<(UnifiedConversation, BranchPath)>, UnifiedError> {
        let conversation = self.engine.store.conversation(&row.conversation_id).await;
        match conversation.map_err(|e| e.to_unified())? {
            Some(conversation) => Ok(Some((conversation, self.path(&row.branch_id).await?))),
            None => Ok(None),
        }
    }
}
