//! Sessions: turns build one conversation in a store, and the next request is made for one owner at its head.

use crate::case::Case;
use crate::evidence::Evidence;
use crate::journal::{self, Backend, Home, wait};
use crate::query::{equal, word};
use crate::wire::{Held, Protocol, capabilities, json_of, project};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use throughline_engine::owner::model_family;
use throughline_format::compaction;
use throughline_format::item::SummaryAuthor;
use throughline_format::resource::{Issuer, ResourceStatus};
use throughline_format::{Fold, Timestamp, UnifiedContentPart, UnifiedId, UnifiedItem, UnifiedResourceOwner};
use throughline_protocols::offline::Stamper;
use throughline_protocols::{DecodeContext, EncodeContext, SideResource};
use throughline_store::{HashPurpose, ItemPage, SealContext, SealedResource, Vault, WriteBatch, WriteOp, owner_fingerprint};

/// One of the owners of a case.
struct Owner {
    protocol: Protocol,
    model: String,
    scope: UnifiedResourceOwner,
}

impl Owner {
    fn of(spec: &Value) -> Result<Self, String> {
        let protocol = Protocol::named(word(spec, "protocol"))?;
        let model = word(spec, "model").to_owned();
        let given = |key: &str| spec.get(key).and_then(Value::as_str).map(str::to_owned);
        let scope = UnifiedResourceOwner {
            profile: protocol.codec.profile(),
            provider: word(spec, "provider").to_owned(),
            credential_fingerprint: word(spec, "credential_fingerprint").to_owned(),
            endpoint_fingerprint: word(spec, "endpoint_fingerprint").to_owned(),
            project: given("project"),
            region: given("region"),
            tenant: given("tenant"),
            model_family: given("model_family").or_else(|| model_family(&model)),
            model: Some(model.clone()),
            api_revision: given("api_revision"),
        };
        Ok(Self { protocol, model, scope })
    }
}

/// A conversation in a store.
struct Session {
    home: Home,
    vault: Arc<Vault>,
    conversation: UnifiedId,
    branch: UnifiedId,
    /// The items of each turn, as places of the path.
    turns: Vec<Range<usize>>,
    folds: BTreeMap<String, Value>,
    /// What the turns lost on their way in.
    losses: Vec<throughline_format::UnifiedLossReport>,
    /// Place where the latest response begins.
    latest: usize,
}

/// The evidence of a session of turns.
pub(crate) fn evidence(case: &Case) -> Result<Evidence<'_>, String> {
    let session = Arc::new(Session::build(&case.input, Backend::Memory)?);
    let target = case
        .input
        .get("project_to")
        .and_then(Value::as_str)
        .map(|name| owner(&case.input, name))
        .transpose();
    let (target, unprojected) = match target {
        Ok(target) => (target, None),
        Err(why) => (None, Some(why)),
    };
    let path = session.path()?;
    let journal = json!({"items": json_of(&path)?});
    let mut evidence = Evidence {
        folds: session.folds.clone(),
        losses: session.losses.clone(),
        unified: Some(journal.clone()),
        unprojected,
        ..Evidence::default()
    };
    evidence.folds.insert("journal".to_owned(), journal);
    let input = &case.input;
    if let Some(target) = target {
        session.project(&mut evidence, &target, path, input)?;
        let (target, again) = (Arc::new(target), session.clone());
        let for_next = target.clone();
        evidence.repeat = Some(Box::new(move || {
            let mut other = Evidence::default();
            again.project(&mut other, &target, again.path()?, input)?;
            Ok(other.output)
        }));
        let again = session.clone();
        evidence.next_request = Some(Box::new(move || {
            let (mut other, mut path) = (Evidence::default(), again.path()?);
            journal::answer_open_calls(&mut path)?;
            again.project(&mut other, &for_next, path, input)?;
            Ok(other)
        }));
    }
    if let Some(second) = case.input.get("also_project_to").and_then(Value::as_str) {
        evidence.second = Some(Box::new(move || {
            let mut other = Evidence::default();
            session.project(&mut other, &owner(input, second)?, session.path()?, input)?;
            Ok(other)
        }));
    }
    let first = evidence.unified.clone();
    evidence.roundtrip = Some(Box::new(move || {
        let stored = Session::build(input, Backend::Sqlite)?;
        let loaded = json!({"items": json_of(&stored.path()?)?});
        let same = first.as_ref().is_some_and(|first| equal(first, &loaded));
        Ok((!same).then(|| "the items that SQLite gives back are others".to_owned()))
    }));
    Ok(evidence)
}

fn owner(input: &Value, name: &str) -> Result<Owner, String> {
    let spec = input.pointer("/owners").and_then(|o| o.get(name));
    Owner::of(spec.ok_or_else(|| format!("there is no owner {name}"))?)
}

impl Session {
    fn build(input: &Value, backend: Backend) -> Result<Self, String> {
        let (conversation, branch): (UnifiedId, UnifiedId) = (journal::record(&json!("conv_case"))?, journal::record(&json!("br_case"))?);
        let mut session = Self {
            home: Home::new(backend)?,
            vault: journal::vault()?,
            conversation: conversation.clone(),
            branch: branch.clone(),
            turns: Vec::new(),
            folds: BTreeMap::new(),
            losses: Vec::new(),
            latest: 0,
        };
        let now = Timestamp::EPOCH;
        session.commit(vec![
            WriteOp::CreateConversation(journal::record(&journal::conversation_record(
                &conversation,
                &branch,
                "runner",
                now,
            ))?),
            WriteOp::CreateBranch(journal::record(
                &json!({"branchId": branch, "conversationId": conversation, "headSequence": 0, "createdAt": now}),
            )?),
        ])?;
        let turns = input.get("turns").and_then(Value::as_array).ok_or("the session has no turns")?;
        for (number, turn) in turns.iter().enumerate() {
            session.turn(input, number, turn).map_err(|e| format!("turn {number}: {e}"))?;
        }
        Ok(session)
    }

    fn commit(&self, ops: Vec<WriteOp>) -> Result<(), String> {
        let batch = WriteBatch {
            now: Timestamp::EPOCH,
            conversation_id: self.conversation.clone(),
            ops,
        };
        wait(self.home.store.commit(batch))?.map(|_| ()).map_err(|e| e.to_string())
    }

    /// The journal as the store gives it back.
    fn path(&self) -> Result<Vec<UnifiedItem>, String> {
        wait(self.home.store.branch_items(&self.branch, ItemPage::default()))?.map_err(|e| e.to_string())
    }

    fn append(&mut self, items: Vec<UnifiedItem>, resources: Vec<WriteOp>) -> Result<(), String> {
        let path = self.path()?;
        self.turns.push(path.len()..path.len() + items.len());
        let mut ops = Vec::new();
        if !items.is_empty() {
            ops.push(WriteOp::AppendItems {
                branch_id: self.branch.clone(),
                expected_head: path.last().map(|i| i.id.clone()),
                items,
            });
        }
        ops.extend(resources);
        if ops.is_empty() { Ok(()) } else { self.commit(ops) }
    }

    fn turn(&mut self, input: &Value, number: usize, turn: &Value) -> Result<(), String> {
        let operation: UnifiedId = journal::record(&json!(format!("op_turn{number}")))?;
        let path = self.path()?;
        match word(turn, "kind") {
            "user" => self.append(vec![journal::user_message(&operation, word(turn, "text"))?], Vec::new()),
            "response" => self.response(input, number, turn, &operation),
            "tool_result" => {
                let call = self.call_of(turn, &path)?;
                let is_error = turn.get("is_error").and_then(Value::as_bool);
                let content = turn.get("content").unwrap_or(&Value::Null);
                let result = journal::tool_result(&operation.item(0), &call.0, Some(&call.1), content, is_error)?;
                self.append(vec![result], Vec::new())
            }
            "interrupt" => {
                let answered = path.iter().skip(self.latest).find_map(|i| i.provenance.operation_id.clone());
                let open: Vec<String> = journal::open_calls(&path).into_iter().map(|(id, _)| id).collect();
                let members = json!({
                    "kind": "interruption", "visibility": "client", "cause": "client-cancel",
                    "operationId": answered.unwrap_or_else(|| operation.clone()), "openCallIds": open,
                });
                self.append(vec![journal::item(&operation.item(0), &members)?], Vec::new())
            }
            "compact" => {
                let last = turn
                    .pointer("/covers_turns/1")
                    .and_then(Value::as_u64)
                    .and_then(|n| usize::try_from(n).ok());
                let range = last.and_then(|n| self.turns.get(n)).ok_or("covers_turns names no turn")?;
                let through = path
                    .get(range.end.saturating_sub(1))
                    .map(|i| i.id.clone())
                    .ok_or("there is nothing to cover")?;
                // A boundary that would split a call from its result moves back; with none before it the compaction is refused.
                let Some(through) = compaction::boundary(&path, &through).cloned() else {
                    return self.append(Vec::new(), Vec::new());
                };
                let id = operation.item(0);
                let part = UnifiedContentPart::text(id.part(0), word(turn, "summary"));
                let summary = compaction::compact(&path, &through, vec![part], SummaryAuthor::Engine).map_err(|e| e.to_string())?;
                let mut members = json_of(&summary)?;
                if let Some(members) = members.as_object_mut() {
                    members.insert("kind".to_owned(), "compaction-summary".into());
                }
                self.append(vec![journal::item(&id, &members)?], Vec::new())
            }
            other => Err(format!("no such turn: {other:?}")),
        }
    }

    /// The call that a result belongs to: by its ID, else by its place in the latest response.
    fn call_of(&self, turn: &Value, path: &[UnifiedItem]) -> Result<(String, String), String> {
        let calls = |items: &[UnifiedItem]| -> Vec<(String, String)> {
            let calls = items.iter().filter_map(|i| match &i.body {
                throughline_format::UnifiedItemBody::ToolCall(call) => Some((call.call_id.clone(), call.name.clone())),
                _ => None,
            });
            calls.collect()
        };
        if let Some(id) = turn.get("call_id").and_then(Value::as_str) {
            let known = calls(path).into_iter().rev().find(|(call, _)| call == id);
            return Ok(known.unwrap_or_else(|| (id.to_owned(), String::new())));
        }
        let ordinal = turn
            .get("call_ordinal")
            .and_then(Value::as_u64)
            .and_then(|n| usize::try_from(n).ok());
        let latest = calls(path.get(self.latest..).unwrap_or_default());
        ordinal
            .and_then(|n| latest.get(n).cloned())
            .ok_or_else(|| "the latest response has no such call".to_owned())
    }

    fn response(&mut self, input: &Value, number: usize, turn: &Value, operation: &UnifiedId) -> Result<(), String> {
        let owner = owner(input, word(turn, "owner"))?;
        let body = turn.get("body").ok_or("the response has no body")?.to_string();
        let path = self.path()?;
        let context = DecodeContext {
            operation_id: operation.clone(),
            request_id: operation.clone(),
            first_sequence: path.len() as u64 + 1,
            requested_model: Some(owner.model.clone()),
            owner_fingerprint: owner_fingerprint(&owner.scope).map_err(|e| e.to_string())?,
            ..DecodeContext::offline()
        };
        let decoded = owner
            .protocol
            .codec
            .decode_response(body.as_bytes(), &context)
            .map_err(|e| e.to_string())?;
        let (mut stamper, mut fold) = (Stamper::new(operation.clone(), Timestamp::EPOCH), Fold::new(operation.clone()));
        for draft in decoded.drafts {
            fold.push(&stamper.stamp(draft))
                .map_err(|e| format!("the decoder broke the event grammar: {e}"))?;
        }
        let result = fold.result();
        self.folds.insert(format!("turn:{number}"), json_of(&result)?);
        self.losses.extend(result.loss);
        let sealed = decoded.resources.iter().map(|side| self.seal(side, &owner.scope));
        let sealed: Result<Vec<WriteOp>, String> = sealed.collect();
        self.latest = path.len();
        self.append(result.output, sealed?)
    }

    fn seal(&self, side: &SideResource, owner: &UnifiedResourceOwner) -> Result<WriteOp, String> {
        let fault = |e: throughline_store::StoreError| e.to_string();
        let fingerprint = owner_fingerprint(owner).map_err(fault)?;
        let context = SealContext::resource(side.resource_id.clone(), self.conversation.clone(), fingerprint);
        Ok(WriteOp::PutResource(Box::new(SealedResource {
            resource_id: side.resource_id.clone(),
            conversation_id: self.conversation.clone(),
            resource_type: side.resource_type.clone(),
            schema: side.schema.clone(),
            issuer: side.issuer,
            owner: owner.clone(),
            owner_fingerprint: fingerprint,
            subject: side.subject.clone(),
            payload_hash: self.vault.keyed_hash(HashPurpose::PrivatePayload, &side.payload).map_err(fault)?,
            prefix_hash: None,
            sealed: self.vault.seal(&context, &side.payload).map_err(fault)?,
            status: ResourceStatus::Active,
            created_at: Timestamp::EPOCH,
            expires_at: None,
        })))
    }

    /// The next request of an owner at the head of this path.
    fn project(&self, evidence: &mut Evidence<'_>, target: &Owner, path: Vec<UnifiedItem>, input: &Value) -> Result<(), String> {
        let empty = Vec::new();
        let tools = input.get("tools").and_then(Value::as_array).unwrap_or(&empty);
        let request = journal::request(path, &target.model, tools)?;
        let context = EncodeContext {
            private: Arc::new(self.state_of(&target.scope)?),
            ..EncodeContext::plain(capabilities(&target.protocol, input)?)
        };
        match target.protocol.codec.encode_request(&request, &context) {
            Ok(encoded) => project(evidence, &encoded.body, encoded.loss)?,
            Err(error) => evidence.error = Some(error),
        }
        Ok(())
    }

    /// What an owner may see: active state of a provider in the exact scope, opened.
    fn state_of(&self, owner: &UnifiedResourceOwner) -> Result<Held, String> {
        let mut visible = Vec::new();
        for sealed in wait(self.home.store.resources(&self.conversation, None))?.map_err(|e| e.to_string())? {
            let released = sealed.issuer == Issuer::Provider
                && sealed.status == ResourceStatus::Active
                && sealed.owner.is_compatible(owner, &sealed.resource_type);
            if released {
                let payload = self.vault.open(&sealed.seal_context(), &sealed.sealed).map_err(|e| e.to_string())?;
                visible.push(SideResource {
                    resource_id: sealed.resource_id,
                    profile: sealed.owner.profile,
                    schema: sealed.schema,
                    scope: throughline_format::ProviderDataScope::OwnerPrivate,
                    issuer: sealed.issuer,
                    resource_type: sealed.resource_type,
                    payload: payload.to_vec(),
                    wire_paths: Vec::new(),
                    // Nothing of a response is about a request as a whole.
                    subject: sealed.subject.or_else(|| Some(UnifiedId::offline_operation())),
                });
            }
        }
        Ok(Held::of(visible.iter(), |_| true))
    }
}
