//! Chunks to parts: what the SDK's reader does with each kind, without its exceptions.

use super::answer::Answer;
use super::wire;
use crate::raw::json;
use crate::wire::Extra;
use std::collections::BTreeMap;
use throughline_format::Json;

/// Why a chunk was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// A delta or end without its start.
    NotStarted,
    /// Something about a call that nobody made.
    UnknownCall,
    /// An answer to a question that nobody asked.
    UnknownApproval,
    /// Data that only notifies.
    Transient,
    /// A member that the kind needs is missing.
    Incomplete,
}

impl Problem {
    /// Code of the warning.
    pub(super) const fn code(self) -> &'static str {
        match self {
            Self::NotStarted => "stream.not-started",
            Self::UnknownCall => "stream.unknown-call",
            Self::UnknownApproval => "stream.unknown-approval",
            Self::Transient => "stream.transient-data",
            Self::Incomplete => "stream.unreadable-chunk",
        }
    }

    /// The warning in words.
    pub(super) const fn message(self) -> &'static str {
        match self {
            Self::NotStarted => "a piece of a text, of reasoning or of arguments came without their begin, and was left out",
            Self::UnknownCall => "something about a call came that was not made, and was left out",
            Self::UnknownApproval => "an answer came to an approval that was not asked for, and was left out",
            Self::Transient => "transient data is no part of the message",
            Self::Incomplete => "a chunk of another shape was left out",
        }
    }
}

/// A part in the making.
struct Slot {
    part: wire::Part,
    /// Pieces of its text or arguments.
    pieces: Vec<String>,
}

/// A call of a step that was handed out already.
#[derive(Clone)]
struct Earlier {
    kind: String,
    name: Option<String>,
    hosted: Option<bool>,
}

/// The parts of the step that is being built.
#[derive(Default)]
pub(super) struct Building {
    slots: Vec<Slot>,
    texts: BTreeMap<String, usize>,
    reasoning: BTreeMap<String, usize>,
    earlier: BTreeMap<String, Earlier>,
    /// Results for calls of earlier steps.
    late: Vec<wire::Part>,
    /// Number of parts that were handed out, for their pointers.
    count: usize,
}

impl Building {
    /// A step begins.
    pub(super) fn step(&mut self) {
        self.push(wire::Part::of("step-start"));
    }

    /// Everything since the begin of the step is taken back.
    pub(super) fn reset(&mut self) {
        let begin = self
            .slots
            .iter()
            .rposition(|slot| slot.part.kind == "step-start")
            .map_or(0, |at| at + 1);
        self.slots.truncate(begin);
        self.texts.clear();
        self.reasoning.clear();
        self.late.clear();
    }

    /// Hands the parts on; texts that are open stay `streaming`.
    pub(super) fn flush(&mut self, answer: &mut Answer) {
        self.texts.clear();
        self.reasoning.clear();
        for late in std::mem::take(&mut self.late) {
            answer.decoder.late_result("/parts", late);
        }
        for slot in std::mem::take(&mut self.slots) {
            if slot.part.is_tool()
                && let Some(id) = &slot.part.tool_call_id
            {
                let call = Earlier {
                    kind: slot.part.kind.clone(),
                    name: slot.part.tool_name.clone(),
                    hosted: slot.part.provider_executed,
                };
                self.earlier.insert(id.clone(), call);
            }
            let path = format!("/parts/{}", self.count);
            self.count += 1;
            let before = answer.decoder.items.len();
            let (kind, is_tool) = (slot.part.kind.clone(), slot.part.is_tool());
            answer.decoder.part(&path, slot.part);
            // Where the pieces went: the last part of the text's item, the reasoning's part, or the call.
            let items = &answer.decoder.items;
            let target = match kind.as_str() {
                "text" => items.last().and_then(|item| item.parts().last()).map(|part| part.part_id.clone()),
                "reasoning" => items.last().map(|item| item.id.part(0)),
                _ if is_tool => items.get(before).map(|item| item.id.clone()),
                _ => None,
            };
            if let Some(target) = target {
                answer.pieces.insert(target, slot.pieces);
            }
        }
        answer.decoder.end_results();
    }

    fn push(&mut self, part: wire::Part) -> usize {
        self.slots.push(Slot { part, pieces: Vec::new() });
        self.slots.len() - 1
    }

    /// Takes a chunk of content.
    pub(super) fn take(&mut self, chunk: wire::Chunk) -> Result<(), Problem> {
        match chunk.kind.as_str() {
            "text-start" | "reasoning-start" => self.begin(chunk),
            "text-delta" | "text-end" | "reasoning-delta" | "reasoning-end" => self.go_on(chunk),
            "tool-input-start" | "tool-input-available" | "tool-input-error" => self.call(chunk),
            "tool-input-delta" => self.arguments(&chunk),
            "tool-approval-request" | "tool-output-available" | "tool-output-error" | "tool-output-denied" => self.outcome(chunk),
            "tool-approval-response" => self.approval(chunk),
            kind if kind.starts_with("data-") => self.data(chunk),
            // Files, sources and whatever is new stand as they are.
            _ => {
                self.push(whole(chunk));
                Ok(())
            }
        }
    }

    fn begin(&mut self, chunk: wire::Chunk) -> Result<(), Problem> {
        let Some(id) = chunk.id else { return Err(Problem::Incomplete) };
        let is_text = chunk.kind == "text-start";
        let mut part = wire::Part::of(if is_text { "text" } else { "reasoning" });
        part.text = Some(String::new());
        part.state = Some("streaming".into());
        part.provider_metadata = chunk.provider_metadata;
        part.extra = chunk.extra;
        if !is_text {
            part.id = Some(id.clone());
        }
        let at = self.push(part);
        if is_text { &mut self.texts } else { &mut self.reasoning }.insert(id, at);
        Ok(())
    }

    fn go_on(&mut self, chunk: wire::Chunk) -> Result<(), Problem> {
        let Some(id) = &chunk.id else { return Err(Problem::Incomplete) };
        let open = if chunk.kind.starts_with("text") {
            &mut self.texts
        } else {
            &mut self.reasoning
        };
        let at = if chunk.kind.ends_with("-end") {
            open.remove(id)
        } else {
            open.get(id).copied()
        };
        let slot = at.and_then(|at| self.slots.get_mut(at)).ok_or(Problem::NotStarted)?;
        if chunk.kind.ends_with("-end") {
            slot.part.state = Some("done".into());
            if chunk.citations.is_some() {
                slot.part.citations = chunk.citations;
            }
        } else {
            let delta = chunk.delta.unwrap_or_default();
            slot.part.text.get_or_insert_default().push_str(&delta);
            slot.pieces.push(delta);
        }
        if chunk.provider_metadata.is_some() {
            slot.part.provider_metadata = chunk.provider_metadata;
        }
        add(&mut slot.part.extra, chunk.extra);
        Ok(())
    }

    /// The newest part of a call in this step.
    fn find(&mut self, call_id: &str) -> Option<&mut Slot> {
        self.slots
            .iter_mut()
            .rev()
            .find(|slot| slot.part.is_tool() && slot.part.tool_call_id.as_deref() == Some(call_id))
    }

    fn call(&mut self, chunk: wire::Chunk) -> Result<(), Problem> {
        let (Some(call_id), Some(name)) = (chunk.tool_call_id, chunk.tool_name) else {
            return Err(Problem::Incomplete);
        };
        let failed = chunk.kind == "tool-input-error";
        let known = self.find(&call_id).map(|slot| slot.part.kind == "dynamic-tool");
        // An error keeps the kind of part that there is; everything else says itself what it is.
        let dynamic = if failed { known } else { None }.unwrap_or(chunk.dynamic == Some(true));
        if known != Some(dynamic) {
            let mut part = wire::Part::of("dynamic-tool");
            part.tool_call_id = Some(call_id.clone());
            if !dynamic {
                part.kind = format!("tool-{name}");
            }
            self.push(part);
        }
        let Some(slot) = self.find(&call_id) else {
            return Err(Problem::UnknownCall);
        };
        let part = &mut slot.part;
        if dynamic {
            part.tool_name = Some(name);
        } else {
            part.kind = format!("tool-{name}");
        }
        let is_start = chunk.kind == "tool-input-start";
        part.state = Some(
            match (is_start, failed) {
                (true, _) => "input-streaming",
                (false, true) => "output-error",
                (false, false) => "input-available",
            }
            .to_owned(),
        );
        part.input = chunk.input;
        part.input_encoding = chunk.input_encoding.filter(|_| is_start);
        part.raw_input = None;
        part.error_text = chunk.error_text;
        part.provider_executed = chunk.provider_executed.or(part.provider_executed);
        if chunk.title.is_some() {
            part.title = chunk.title;
        }
        set_extra(&mut part.extra, "toolMetadata", chunk.tool_metadata);
        if chunk.provider_metadata.is_some() {
            if failed {
                part.result_provider_metadata = chunk.provider_metadata;
            } else {
                part.call_provider_metadata = chunk.provider_metadata;
            }
        }
        add(&mut part.extra, chunk.extra);
        Ok(())
    }

    fn arguments(&mut self, chunk: &wire::Chunk) -> Result<(), Problem> {
        let (Some(call_id), Some(delta)) = (&chunk.tool_call_id, &chunk.input_text_delta) else {
            return Err(Problem::Incomplete);
        };
        let slot = self
            .find(call_id)
            .filter(|slot| slot.part.state.as_deref() == Some("input-streaming"))
            .ok_or(Problem::NotStarted)?;
        slot.pieces.push(delta.clone());
        slot.part.raw_input = Some(json(&slot.pieces.concat()));
        Ok(())
    }

    fn outcome(&mut self, chunk: wire::Chunk) -> Result<(), Problem> {
        let Some(call_id) = chunk.tool_call_id.clone() else {
            return Err(Problem::Incomplete);
        };
        if let Some(slot) = self.find(&call_id) {
            return settle(&mut slot.part, chunk);
        }
        let earlier = self.earlier.get(&call_id).cloned().ok_or(Problem::UnknownCall)?;
        if !matches!(chunk.kind.as_str(), "tool-output-available" | "tool-output-error") {
            return Err(Problem::UnknownCall);
        }
        let mut part = wire::Part::of(&earlier.kind);
        part.tool_name = earlier.name;
        part.tool_call_id = Some(call_id.clone());
        part.provider_executed = earlier.hosted;
        settle(&mut part, chunk)?;
        // A later output of the same call replaces an earlier one.
        self.late.retain(|late| late.tool_call_id.as_deref() != Some(call_id.as_str()));
        self.late.push(part);
        Ok(())
    }

    fn approval(&mut self, chunk: wire::Chunk) -> Result<(), Problem> {
        let (Some(id), Some(approved)) = (&chunk.approval_id, chunk.approved) else {
            return Err(Problem::Incomplete);
        };
        let slot = self
            .slots
            .iter_mut()
            .find(|slot| slot.part.approval.as_ref().is_some_and(|a| a.id == *id))
            .ok_or(Problem::UnknownApproval)?;
        slot.part.state = Some("approval-responded".into());
        if let Some(approval) = &mut slot.part.approval {
            approval.approved = Some(approved);
            approval.reason = chunk.reason;
        }
        slot.part.provider_executed = chunk.provider_executed.or(slot.part.provider_executed);
        if chunk.provider_metadata.is_some() {
            slot.part.call_provider_metadata = chunk.provider_metadata;
        }
        Ok(())
    }

    fn data(&mut self, chunk: wire::Chunk) -> Result<(), Problem> {
        if chunk.transient == Some(true) {
            return Err(Problem::Transient);
        }
        let known = self
            .slots
            .iter_mut()
            .find(|slot| chunk.id.is_some() && slot.part.kind == chunk.kind && slot.part.id == chunk.id);
        if let Some(slot) = known {
            slot.part.data = chunk.data;
        } else {
            let mut part = wire::Part::of(&chunk.kind);
            part.id = chunk.id;
            part.data = chunk.data;
            part.extra = chunk.extra;
            self.push(part);
        }
        Ok(())
    }
}

/// Approval and result of a call.
fn settle(part: &mut wire::Part, chunk: wire::Chunk) -> Result<(), Problem> {
    match chunk.kind.as_str() {
        "tool-approval-request" => {
            let Some(id) = chunk.approval_id else {
                return Err(Problem::Incomplete);
            };
            let mut extra = Extra::default();
            set_extra(&mut extra, "descriptor", chunk.approval_descriptor);
            set_extra(&mut extra, "inputSchemaInput", chunk.input_schema_input);
            set_extra(
                &mut extra,
                "isAutomatic",
                chunk.is_automatic.filter(|automatic| *automatic).map(|a| json(&a)),
            );
            set_extra(&mut extra, "signature", chunk.signature.map(|s| json(&s)));
            part.state = Some("approval-requested".into());
            part.approval = Some(wire::Approval {
                id,
                approved: None,
                reason: None,
                request_reason: chunk.reason,
                extra,
            });
        }
        "tool-output-denied" => part.state = Some("output-denied".into()),
        kind => {
            let failed = kind == "tool-output-error";
            part.state = Some(if failed { "output-error" } else { "output-available" }.to_owned());
            part.output = chunk.output;
            part.error_text = chunk.error_text;
            part.preliminary = chunk.preliminary;
            part.provider_executed = chunk.provider_executed.or(part.provider_executed);
            set_extra(&mut part.extra, "toolMetadata", chunk.tool_metadata);
            if chunk.provider_metadata.is_some() {
                part.result_provider_metadata = chunk.provider_metadata;
            }
            add(&mut part.extra, chunk.extra);
        }
    }
    Ok(())
}

/// A chunk that is a part as it stands.
fn whole(chunk: wire::Chunk) -> wire::Part {
    let mut part = wire::Part::of(&chunk.kind);
    part.id = chunk.id;
    part.url = chunk.url;
    part.media_type = chunk.media_type;
    part.filename = chunk.filename;
    part.source_id = chunk.source_id;
    part.title = chunk.title;
    part.data = chunk.data;
    part.provider_metadata = chunk.provider_metadata;
    part.extra = chunk.extra;
    // Members that parts do not have, of a kind that this version does not know.
    for (key, value) in [
        ("delta", chunk.delta.map(|v| json(&v))),
        ("toolCallId", chunk.tool_call_id.map(|v| json(&v))),
        ("toolName", chunk.tool_name.map(|v| json(&v))),
        ("input", chunk.input),
        ("output", chunk.output),
        ("errorText", chunk.error_text.map(|v| json(&v))),
        ("reason", chunk.reason.map(|v| json(&v))),
    ] {
        set_extra(&mut part.extra, key, value);
    }
    part
}

/// Sets an unknown member, or leaves it as it is.
fn set_extra(extra: &mut Extra, key: &str, value: Option<Json>) {
    if let Some(value) = value {
        extra.take(key);
        extra.0.push((key.to_owned(), value));
    }
}

/// Adds unknown members; the newest value of each counts.
fn add(extra: &mut Extra, more: Extra) {
    for (key, value) in more.0 {
        set_extra(extra, &key, Some(value));
    }
}
