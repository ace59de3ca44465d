//! Events, each for itself and as the log of one operation.

use super::items::{self, Around};
use super::parts::{self, Allowed, Known};
use super::{result, shared, usage};
use crate::event::{EventBody, FIELD_POINTERS, ItemDelta, UnifiedEventV2};
use crate::fold::{Fold, FoldProblem};
use crate::item::{ItemStatus, UnifiedItem};
use crate::media::decode_base64;
use crate::validate::{Check, Pending, Rule};
use crate::{Count, UnifiedContentPart, UnifiedId};
use std::collections::HashMap;

/// How much of an operation a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it: it has ended.
    Whole,
    /// Its beginning.
    Prefix,
}

/// What an event must name.
#[derive(Clone, Copy)]
enum Subject {
    Operation,
    Item,
    Part,
    Call,
}

const fn subject(body: &EventBody) -> Subject {
    match body {
        EventBody::OperationCreated(_)
        | EventBody::OperationQueued(_)
        | EventBody::OperationRunning(_)
        | EventBody::OperationRequiresAction(_)
        | EventBody::OperationCompleted(_)
        | EventBody::OperationFailed(_)
        | EventBody::OperationCancelled(_)
        | EventBody::OperationExpired(_)
        | EventBody::ResponseStarted(_)
        | EventBody::ResponseMetadata(_)
        | EventBody::UsageUpdate(_)
        | EventBody::CheckpointReady(_)
        | EventBody::CheckpointInvalidated(_)
        | EventBody::Warning(_)
        | EventBody::LossUpdate(_)
        | EventBody::Error(_)
        | EventBody::Heartbeat(_)
        | EventBody::StreamCompleted(_) => Subject::Operation,
        EventBody::ItemStarted(_)
        | EventBody::ItemCompleted(_)
        | EventBody::ItemFailed(_)
        | EventBody::SignatureReady(_)
        | EventBody::SourceReady(_)
        | EventBody::ArtifactReady(_) => Subject::Item,
        EventBody::ItemDelta(change) => match change.delta {
            ItemDelta::PartStarted(_) | ItemDelta::Output(_) | ItemDelta::Field(_) => Subject::Item,
            ItemDelta::PartCompleted(_) | ItemDelta::Media(_) => Subject::Part,
        },
        EventBody::TextDelta(_) | EventBody::ReasoningDelta(_) | EventBody::CitationReady(_) => Subject::Part,
        EventBody::ToolArgumentsDelta(_) | EventBody::ToolArgumentsReady(_) | EventBody::ToolLifecycle(_) => Subject::Call,
    }
}

/// The rules of one event, which is the place of `check`.
pub(super) fn one(check: &mut Check, event: &UnifiedEventV2, pending: Pending) {
    names(check, event);
    match &event.body {
        EventBody::OperationCompleted(done) => check.inside("status", |check| result::status(check, &done.status)),
        EventBody::OperationFailed(e) | EventBody::ItemFailed(e) | EventBody::Error(e) => shared::error(check, "error", &e.error),
        EventBody::OperationQueued(changed)
        | EventBody::OperationRunning(changed)
        | EventBody::OperationRequiresAction(changed)
        | EventBody::OperationCancelled(changed)
        | EventBody::OperationExpired(changed) => check.secret_free_option("reason", changed.reason.as_ref()),
        EventBody::OperationCreated(created) => check.secret_free_option("requestedModel", created.requested_model.as_ref()),
        EventBody::ResponseStarted(started) => {
            if let Some(who) = &started.attribution {
                shared::attribution(check, "attribution", who);
            }
        }
        EventBody::ResponseMetadata(metadata) => {
            check.secret_free_option("providerRequestId", metadata.provider_request_id.as_ref());
            if let Some(found) = &metadata.status {
                check.inside("status", |check| result::status(check, found));
            }
        }
        EventBody::ItemStarted(started) => {
            item(check, &started.item, event, pending);
            let running = started.item.status == ItemStatus::InProgress;
            check.inside("item", |check| {
                check.require(running, "status", Rule::ItemStatus, "an item that begins is in progress");
            });
        }
        EventBody::ItemCompleted(done) => {
            check.require(
                done.status.is_terminal(),
                "status",
                Rule::ItemStatus,
                "an item that is finished has a final status",
            );
            if let Some(whole) = &done.item {
                item(check, whole, event, pending);
            }
        }
        EventBody::ItemDelta(change) => check.inside("delta", |check| match &change.delta {
            ItemDelta::PartStarted(started) => part(check, &started.part),
            ItemDelta::Output(output) => {
                if let Some(whole) = &output.part {
                    part(check, whole);
                }
                check.require(
                    output.text.is_some() || output.part.is_some(),
                    "text",
                    Rule::EventSubject,
                    "a piece of output has text or a part",
                );
            }
            ItemDelta::Media(media) => check.require(
                decode_base64(&media.base64).is_some(),
                "base64",
                Rule::InlineData,
                "it is not valid base64",
            ),
            ItemDelta::Field(field) => {
                let registered = FIELD_POINTERS.contains(&field.pointer.as_str());
                check.require(registered, "pointer", Rule::EventFold, "the pointer is not registered");
            }
            ItemDelta::PartCompleted(_) => {}
        }),
        EventBody::SignatureReady(ready) => check.inside("providerData", |check| {
            shared::data_ref(check, &ready.provider_data);
            let own = ready.provider_data.scope == crate::ProviderDataScope::OwnerPrivate;
            check.require(own, "scope", Rule::AnnotationScope, "private state is owner-private");
        }),
        EventBody::ToolLifecycle(change) => {
            let legal = change.from.may_become(change.to);
            check.require(
                legal,
                "to",
                Rule::Transition,
                format_args!("a call may not go from {} to {}", change.from, change.to),
            );
        }
        EventBody::SourceReady(ready) | EventBody::ArtifactReady(ready) => part(check, &ready.part),
        EventBody::CitationReady(_) | EventBody::TextDelta(_) | EventBody::ReasoningDelta(_) => {}
        EventBody::ToolArgumentsReady(ready) => {
            let parses = ready.input.is_none() || serde_json::from_str::<serde::de::IgnoredAny>(&ready.raw_arguments).is_ok();
            check.require(
                parses,
                "input",
                Rule::CallInput,
                "the argument text is no JSON, so there is no input",
            );
        }
        EventBody::ToolArgumentsDelta(_) | EventBody::CheckpointReady(_) | EventBody::Heartbeat(_) => {}
        EventBody::UsageUpdate(update) => usage::check(check, Some(&update.usage)),
        EventBody::CheckpointInvalidated(gone) => check.secret_free("reason", &gone.reason),
        EventBody::Warning(warning) => {
            check.secret_free("code", &warning.code);
            check.secret_free("message", &warning.message);
        }
        EventBody::LossUpdate(update) => shared::loss_entries(check, "entries", &update.entries),
        EventBody::StreamCompleted(done) => check.inside("status", |check| result::status(check, &done.status)),
    }
}

/// The IDs that an event carries.
fn names(check: &mut Check, event: &UnifiedEventV2) {
    let is_heartbeat = is_heartbeat(event);
    check.require(
        is_heartbeat || event.sequence >= 1,
        "sequence",
        Rule::EventOrder,
        "sequences count from 1",
    );
    let derived = is_heartbeat || event.event_id == event.operation_id.event(event.sequence);
    check.require(derived, "eventId", Rule::EventId, "it is the operation's ID, `.e` and the sequence");
    check.require(
        event.candidate != Some(0),
        "candidate",
        Rule::EventSubject,
        "the first candidate is not named",
    );
    let (item, part, call) = match subject(&event.body) {
        Subject::Operation => (false, false, false),
        Subject::Item => (true, false, false),
        Subject::Part => (true, true, false),
        Subject::Call => (true, false, true),
    };
    check.require(
        !item || event.item_id.is_some(),
        "itemId",
        Rule::EventSubject,
        "this event is about an item",
    );
    check.require(
        !part || event.part_id.is_some(),
        "partId",
        Rule::EventSubject,
        "this event is about a part",
    );
    check.require(
        !call || event.call_id.is_some(),
        "callId",
        Rule::EventSubject,
        "this event is about a call",
    );
}

fn item(check: &mut Check, item: &UnifiedItem, event: &UnifiedEventV2, pending: Pending) {
    let known = Known::of(std::iter::once(item), false);
    check.inside("item", |check| {
        items::one(
            check,
            item,
            &Around {
                pending,
                conversation: None,
                known: &known,
            },
        );
        let same = event.item_id.as_ref().is_none_or(|id| *id == item.id);
        check.require(same, "id", Rule::EventSubject, "the event names another item");
    });
}

fn part(check: &mut Check, part: &UnifiedContentPart) {
    let known = Known::of(std::iter::empty(), false);
    let allowed = if matches!(part.body, crate::PartBody::Reasoning(_)) {
        Allowed::Reasoning
    } else {
        Allowed::Content
    };
    check.inside("part", |check| parts::alone(check, part, &known, allowed));
}

/// The rules of a log, which is the place of `check`.
pub(super) fn log(check: &mut Check, log: &[UnifiedEventV2], extent: Extent, pending: Pending) {
    let Some(first) = log.first() else { return };
    let mut log_so_far = Log {
        of: &first.operation_id,
        places: HashMap::new(),
        last: 0,
        end: End::Open,
        fold: Fold::new(first.operation_id.clone()),
        sound: true,
    };
    for (index, event) in log.iter().enumerate() {
        check.element(index, |check| {
            one(check, event, pending);
            log_so_far.push(check, event, log.get(index + 1..).unwrap_or_default());
        });
    }
    match (log_so_far.end, extent) {
        (End::Complete, _) | (End::Open, Extent::Prefix) => {}
        (End::Terminal, Extent::Prefix) => check.broken(Rule::EventEnd, "stream.completed follows the terminal event at once"),
        (End::Open | End::Terminal, Extent::Whole) => check.broken(Rule::EventEnd, "the log does not end with stream.completed"),
    }
}

const fn is_heartbeat(event: &UnifiedEventV2) -> bool {
    matches!(event.body, EventBody::Heartbeat(_))
}

/// How near its end a log is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Terminal,
    Complete,
}

/// A log as far as it was read.
struct Log<'a> {
    of: &'a UnifiedId,
    places: HashMap<Count, &'a UnifiedEventV2>,
    last: Count,
    end: End,
    fold: Fold,
    /// Whether every event so far was folded.
    sound: bool,
}

impl<'a> Log<'a> {
    /// The next event, and those after it.
    fn push(&mut self, check: &mut Check, event: &'a UnifiedEventV2, rest: &[UnifiedEventV2]) {
        let (sequence, last) = (event.sequence, self.last);
        if is_heartbeat(event) {
            check.require(
                sequence == last,
                "sequence",
                Rule::EventOrder,
                format_args!("a heartbeat repeats the last number, {last}"),
            );
            return;
        }
        if event.operation_id != *self.of {
            check.broken_at("operationId", Rule::EventOrder, "a log is of one operation");
        } else if let Some(earlier) = self.places.get(&sequence) {
            check.require(*earlier == event, "sequence", Rule::EventOrder, "another event has this number");
            if sequence != last + 1 {
                return;
            }
        } else {
            self.places.insert(sequence, event);
        }
        let expected = last + 1;
        if sequence == expected {
            self.last = expected;
        } else {
            check.broken_at("sequence", Rule::EventOrder, format_args!("expected {expected}"));
            // A gap is told once, and so is one number that is wrong by itself.
            let next = || rest.iter().find(|e| !is_heartbeat(e)).map(|e| e.sequence);
            let is_gap = sequence > expected && next().is_none_or(|n| n > sequence);
            self.last = if is_gap { sequence } else { expected };
        }
        self.ending(check, event);
    }

    /// One terminal event, then the last one.
    fn ending(&mut self, check: &mut Check, event: &UnifiedEventV2) {
        let completes = matches!(event.body, EventBody::StreamCompleted(_));
        let legal = match self.end {
            End::Open => !completes,
            End::Terminal => completes,
            End::Complete => false,
        };
        if !legal {
            let why = if self.end == End::Open {
                "a terminal event comes first"
            } else {
                "the operation had ended"
            };
            check.broken_at("kind", Rule::EventEnd, why);
        }
        if self.end == End::Open || legal {
            self.fold(check, event);
        }
        if completes {
            self.end = End::Complete;
        } else if event.body.is_terminal() && self.end == End::Open {
            self.end = End::Terminal;
        }
    }

    /// What the event does to the events before it. The fold is given a log without gaps, so that it goes on.
    fn fold(&mut self, check: &mut Check, event: &UnifiedEventV2) {
        if let (EventBody::StreamCompleted(done), true) = (&event.body, self.sound) {
            let items = self.fold.items();
            let same = done.item_ids.len() == items.len() && done.item_ids.iter().zip(items).all(|(id, item)| *id == item.id);
            check.require(same, "itemIds", Rule::EventItems, "they are the items of the answer in order");
        }
        let mut event = event.clone();
        event.base.operation_id = self.of.clone();
        event.base.sequence = self.fold.last_sequence() + 1;
        let Err(error) = self.fold.push(&event) else { return };
        self.sound = false;
        let rule = match error.problem {
            FoldProblem::IllegalTransition { .. } | FoldProblem::IllegalStatus { .. } | FoldProblem::IllegalOperation { .. } => {
                Rule::Transition
            }
            _ => Rule::EventFold,
        };
        check.broken_at("kind", rule, error.problem);
    }
}
