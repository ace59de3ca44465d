//! Hosted and computer calls of the history: as they were where their owner reads them, else in words.

use super::encode_block::{BlockEncoder, Place, is_native, text, typed};
use super::encode_history::{Atom, Kind, Side, call_block, caller, result_block};
use super::encode_turns::Exchange;
use super::kept;
use super::wire::Members;
use crate::feature::Feature;
use crate::keeper;
use crate::raw::json;
use crate::raw::{self};
use crate::told;
use std::collections::{BTreeMap, BTreeSet};
use throughline_format::item::{CodeExecutionItem, ComputerActionItem, ComputerActionResultItem, ToolCallItem};
use throughline_format::loss::LossSeverity::Warning;
use throughline_format::{Json, UnifiedItem, UnifiedItemBody};

/// Beginning of the IDs of hosted calls on this wire.
const HOSTED_ID: &str = "srvtoolu_";

/// What the history holds of hosted and computer calls.
pub(super) struct Hosted {
    /// Hosted calls with a result.
    answered: BTreeSet<String>,
    /// Those whose result can be sent back as it was.
    replayed: BTreeSet<String>,
    /// Toolsets of the computer calls that can be sent back as they were.
    computers: BTreeMap<String, String>,
}

impl Hosted {
    /// Looks through the history.
    pub(super) fn of(encoder: &BlockEncoder<'_>, items: &[UnifiedItem]) -> Self {
        let mut hosted = Self {
            answered: BTreeSet::new(),
            replayed: BTreeSet::new(),
            computers: BTreeMap::new(),
        };
        for item in items {
            if let UnifiedItemBody::ComputerAction(action) = &item.body
                && let Some(environment) = action.environment.clone().filter(|_| own_action(item, action).is_some())
            {
                hosted.computers.insert(action.call_id.clone(), environment);
            }
            let result = matches!(
                item.body,
                UnifiedItemBody::ServerToolResult(_) | UnifiedItemBody::CodeExecutionResult(_) | UnifiedItemBody::SearchResult(_)
            );
            let Some(call_id) = item.call_id().filter(|_| result) else {
                continue;
            };
            hosted.answered.insert(call_id.to_owned());
            if keeper::payload_of(item.base.provider_data.as_ref(), kept::BLOCK, encoder.context).is_some() {
                hosted.replayed.insert(call_id.to_owned());
            }
        }
        hosted
    }

    /// Whether a hosted call goes back as a call: its owner's, and with its result or still without one.
    fn goes_back(&self, item: &UnifiedItem, call_id: &str) -> bool {
        is_native(item.base.provenance.profile.as_ref()) && (self.replayed.contains(call_id) || !self.answered.contains(call_id))
    }
}

/// Whether the item is what a hosted tool of this wire gave.
pub(super) fn result_id(item: &UnifiedItem) -> Option<&str> {
    match &item.body {
        UnifiedItemBody::ServerToolResult(result) => Some(&result.call_id),
        UnifiedItemBody::CodeExecutionResult(result) => Some(&result.call_id),
        UnifiedItemBody::SearchResult(found) => found.call_id.as_deref(),
        _ => None,
    }
}

/// Members of a result that a block of this wire says by its type alone.
pub(super) fn said_by_type(item: &UnifiedItem) -> Vec<&'static str> {
    let mut members = Vec::new();
    match &item.body {
        UnifiedItemBody::ServerToolResult(result) => {
            members.extend(result.is_error.map(|_| "isError"));
            members.extend(result.error.as_ref().map(|_| "error"));
            if result.name.is_some() {
                members.push("name");
            }
        }
        UnifiedItemBody::CodeExecutionResult(result) => {
            members.push("outcome");
            members.extend(result.error.as_ref().map(|_| "error"));
        }
        UnifiedItemBody::SearchResult(found) => {
            members.push("queries");
            members.extend(found.error.as_ref().map(|_| "error"));
        }
        UnifiedItemBody::CompactionSummary(_) => members.extend(["covers", "auditHash", "replaces", "author"]),
        UnifiedItemBody::ProviderSwitch(_) => members.extend(["reason", "toProfile"]),
        _ => {}
    }
    members
}

impl BlockEncoder<'_> {
    /// A call of a hosted tool.
    pub(super) fn server_call(&mut self, item: &UnifiedItem, call: &ToolCallItem, place: Place<'_>, hosted: &Hosted) -> (Kind, Json) {
        let known = call.server_label.is_some() || call.call_id.starts_with(HOSTED_ID);
        if !known || !hosted.goes_back(item, &call.call_id) {
            return self.told(item, place);
        }
        let kind = if call.server_label.is_some() {
            "mcp_tool_use"
        } else {
            "server_tool_use"
        };
        let block = call_block(self, item, call, kind, place);
        let block = self.with_unmapped(block, item.base.provider_data.as_ref(), place);
        (Kind::ServerCall(call.call_id.clone(), in_words(item)), block)
    }

    /// Code of a hosted environment.
    pub(super) fn code(&mut self, item: &UnifiedItem, code: &CodeExecutionItem, place: Place<'_>, hosted: &Hosted) -> (Kind, Json) {
        let known = code.call_id.starts_with(HOSTED_ID) && hosted.goes_back(item, &code.call_id);
        let Some(block) = code_block(code).filter(|_| known) else {
            return self.told(item, place);
        };
        self.remark(&format!("{}/language", place.path), "said by the name of the tool");
        let block = self.with_unmapped(block, item.base.provider_data.as_ref(), place);
        (Kind::ServerCall(code.call_id.clone(), in_words(item)), block)
    }

    /// An action on a computer or in a browser.
    pub(super) fn computer(&mut self, item: &UnifiedItem, action: &ComputerActionItem, place: Place<'_>) -> (Kind, Json) {
        if let Some(block) = own_action(item, action) {
            let block = self.with_unmapped(block, item.base.provider_data.as_ref(), place);
            return (Kind::Call(action.call_id.clone()), block);
        }
        self.told(item, place)
    }

    /// What a computer or browser shows: the result of its call, or words of the assistant where the call is told in words.
    pub(super) fn computer_result(
        &mut self,
        item: &UnifiedItem,
        result: &ComputerActionResultItem,
        place: Place<'_>,
        hosted: &Hosted,
    ) -> (Side, Kind, Json) {
        let Some(environment) = hosted.computers.get(&result.call_id) else {
            let (kind, json) = self.told(item, place);
            return (Side::Assistant, kind, json);
        };
        let failed = result.is_error.or(result.error.as_ref().map(|_| true));
        let (mut block, inner) = result_block(self, &result.output, failed, place.path, &item.id);
        let references = item.base.provider_data.as_ref();
        let own = keeper::unmapped_of(references, &self.profile, self.context);
        if own.is_empty() && references.is_some() {
            block = raw::put(&block, "/toolset_name", &json(environment));
        }
        if result.current_url.is_some() {
            self.remark(&format!("{}/currentUrl", place.path), "said by the state of the browser");
        }
        let block = self.with_unmapped(block, references, place);
        (Side::User, Kind::Result(result.call_id.clone(), inner), block)
    }

    /// What has no form here, in words.
    pub(super) fn told(&mut self, item: &UnifiedItem, place: Place<'_>) -> (Kind, Json) {
        let (feature, reason) = told::reported(item);
        self.lost(Warning, feature, place, reason);
        (Kind::Text, text(&in_words(item)))
    }
}

/// The words of a call or result; an empty text is left out later.
pub(super) fn in_words(item: &UnifiedItem) -> String {
    told::told(item).unwrap_or_default()
}

/// The block of code that this wire has a form for.
pub(super) fn code_block(code: &CodeExecutionItem) -> Option<Json> {
    // What the code is written in is said by the name of the tool.
    let (name, member, said) = match (&code.code, code.commands.as_deref()) {
        (Some(said), None) => ("code_execution", "code", said),
        (None, Some([command])) => ("bash_code_execution", "command", command),
        _ => return None,
    };
    Some(typed(
        "server_tool_use",
        [
            ("id", Some(json(&code.call_id))),
            ("name", Some(json(name))),
            ("input", Some(raw::object(vec![(member.to_owned(), json(said))]))),
            ("caller", code.caller.as_ref().map(caller)),
        ],
    ))
}

/// The call of a toolset's member that an action of this wire stands for.
pub(super) fn own_action(item: &UnifiedItem, action: &ComputerActionItem) -> Option<Json> {
    let [only] = action.actions.as_slice() else { return None };
    let environment = action
        .environment
        .as_ref()
        .filter(|_| is_native(item.base.provenance.profile.as_ref()))?;
    let mut members = only.decode::<Members>().ok()?.extra;
    let name: String = members.take("action")?.decode().ok()?;
    Some(typed(
        "tool_use",
        [
            ("id", Some(json(&action.call_id))),
            ("name", Some(json(&name))),
            ("input", Some(raw::object(members.0))),
            ("toolset_name", Some(json(environment))),
        ],
    ))
}

/// Hosted results stand after their call, and calls have a result unless their turn goes on; what is torn is told in words.
pub(super) fn pair_hosted(encoder: &mut BlockEncoder<'_>, exchanges: &mut [Exchange]) {
    let mut calls = BTreeSet::new();
    let mut orphans = BTreeSet::new();
    for atom in exchanges.iter().flat_map(|e| &e.assistant) {
        match &atom.kind {
            Kind::ServerCall(id, _) => {
                calls.insert(id.clone());
            }
            Kind::ServerResult(Some(id), _) if !calls.remove(id) => {
                orphans.insert(atom.path.clone());
            }
            _ => {}
        }
    }
    // What is left has no result. The last turn may go on with it: paused, or waiting for the client's results.
    if let Some(last) = exchanges.last()
        && last.user.first().is_none_or(|atom| matches!(atom.kind, Kind::Result(..)))
    {
        for atom in &last.assistant {
            if let Kind::ServerCall(id, _) = &atom.kind {
                calls.remove(id);
            }
        }
    }
    for exchange in exchanges {
        for atom in &mut exchange.assistant {
            let torn = match &atom.kind {
                Kind::ServerCall(id, said) => calls.contains(id).then(|| said.clone()),
                Kind::ServerResult(_, said) => orphans.contains(&atom.path).then(|| said.clone()),
                _ => None,
            };
            let Some(said) = torn else { continue };
            encoder.loss.add_for(
                Warning,
                Feature::ConversationInterruption,
                atom.path.clone(),
                "a hosted call and its result are torn apart; what is left is told as text",
                Some(&atom.item),
            );
            atom.kind = Kind::Text;
            atom.json = text(said.trim());
        }
        let mut border = None;
        exchange.assistant = std::mem::take(&mut exchange.assistant)
            .into_iter()
            .filter_map(|mut atom| {
                if atom.kind == Kind::Text && is_void(&atom) {
                    border = border.take().or(atom.apart);
                    return None;
                }
                atom.apart = atom.apart.or_else(|| border.take());
                Some(atom)
            })
            .collect();
    }
}

/// Whether a text says nothing at all, as what is left of something torn may.
fn is_void(atom: &Atom) -> bool {
    atom.json
        .decode::<super::wire::TextBlock>()
        .is_ok_and(|block| block.text.is_empty())
}
