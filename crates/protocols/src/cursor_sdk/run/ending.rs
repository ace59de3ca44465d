//! How a run ends, and what it used.

use super::{Ended, ROOT_RESOURCE, Run};
use crate::cursor_sdk::private::OFFSET;
use crate::cursor_sdk::{errors, tools, usage};
use crate::keeper::Keep;
use crate::raw::json;
use throughline_format::error::sanitise;
use throughline_format::event::{EventBody, LossUpdate, OperationChanged, StreamCompleted, UsageUpdate};
use throughline_format::tool::Execution;
use throughline_format::usage::{UnifiedCounter, UsageScope, UsageSource};
use throughline_format::{
    ErrorCategory, Json, UnifiedError, UnifiedFinishReason, UnifiedId, UnifiedResponseStatus, UnifiedToolLifecycle, UnifiedUsage,
};

impl Run {
    // ---- usage -------------------------------------------------------------------------------------------------

    /// Counters of a turn; a run of several turns has their sum.
    pub(in crate::cursor_sdk) fn turn_usage(&mut self, raw: &Json) {
        let Some(turn) = usage::decode(raw, UsageScope::Request) else {
            return;
        };
        self.turn = Some(match self.turn.take() {
            None => turn,
            Some(before) => usage::sum(&before, &turn),
        });
        self.tell_usage();
    }

    /// Counters of the run as a whole.
    pub(in crate::cursor_sdk) fn run_usage(&mut self, raw: &Json) {
        if let Some(run) = usage::decode(raw, UsageScope::Operation) {
            self.turn = Some(run);
            self.tell_usage();
        }
    }

    /// Counters of the agent: never the turn's.
    pub(in crate::cursor_sdk) fn agent_usage(&mut self, raw: &Json, run: &str) {
        if let Some(known) = usage::of_agent(raw, run) {
            self.session = known.others.as_ref().and_then(|others| others.first().cloned());
            let of_run = UnifiedUsage { others: None, ..known };
            if of_run != UnifiedUsage::default() {
                self.turn = Some(of_run);
            }
            self.tell_usage();
        }
    }

    /// An estimate while the answer is being made.
    pub(in crate::cursor_sdk) fn tokens(&mut self, tokens: f64) {
        self.estimate += tokens;
        if self.turn.is_none() {
            let usage = UnifiedUsage {
                output_total: Some(UnifiedCounter {
                    value: self.estimate,
                    scope: UsageScope::Request,
                    source: UsageSource::Estimated,
                }),
                ..UnifiedUsage::default()
            };
            self.begin();
            self.out.push(EventBody::UsageUpdate(UsageUpdate { usage }));
        }
    }

    fn tell_usage(&mut self) {
        if let Some(usage) = usage::joined(self.turn.as_ref(), self.session.as_ref()) {
            self.begin();
            self.out.push(EventBody::UsageUpdate(UsageUpdate { usage }));
        }
    }

    // ---- the end -----------------------------------------------------------------------------------------------

    /// The text of the whole answer, as some sources repeat it at the end.
    pub(in crate::cursor_sdk) fn whole_text(&mut self, text: &str) {
        if !self.has_text {
            self.text(text, false);
            return;
        }
        // The end of a message that nobody could follow any more.
        if let Some(rest) = text.strip_prefix(self.said.as_str())
            && self.open.as_ref().is_some_and(|open| !open.is_thinking)
        {
            self.text(rest, false);
            return;
        }
        if self.said != text {
            self.warn("response.other-text", "the result repeats another text than was said");
            self.keep("/result", json(text));
        }
    }

    /// A word of a status, when it ends the run.
    pub(in crate::cursor_sdk) fn status(&mut self, word: &str, message: Option<String>) {
        let ended = match word.to_ascii_lowercase().as_str() {
            "finished" | "success" | "completed" => Ended::Finished(word.to_owned()),
            "error" | "failed" => Ended::Failed(word.to_owned(), message),
            "cancelled" | "canceled" => Ended::Cancelled(message),
            "expired" => Ended::Expired,
            _ => return,
        };
        // The first word counts: what comes later repeats it in other spellings.
        if self.ended.is_none() {
            self.ended = Some(ended);
        }
    }

    fn flush(&mut self) {
        self.out.resources.append(&mut self.keeper.resources);
        let entries: Vec<_> = self.keeper.loss.report().entries.get(self.losses..).unwrap_or_default().to_vec();
        self.losses += entries.len();
        if !entries.is_empty() {
            self.out.push(EventBody::LossUpdate(LossUpdate { entries }));
        }
    }

    /// The source has no more to say.
    pub(in crate::cursor_sdk) fn end(&mut self) {
        let ended = self.ended.take();
        let error = match &ended {
            None => Some(UnifiedError::new(
                ErrorCategory::Interrupted,
                "stream",
                "the stream ended before the run did",
            )),
            Some(Ended::Failed(code, message)) => Some(errors::of_code(code, message.as_deref(), None)),
            Some(Ended::Finished(_) | Ended::Cancelled(_) | Ended::Expired) => None,
        };
        self.end_with(ended.as_ref(), error);
    }

    /// The run ends with an error.
    pub(in crate::cursor_sdk) fn fail(&mut self, error: UnifiedError) {
        self.end_with(None, Some(error));
    }

    fn end_with(&mut self, ended: Option<&Ended>, error: Option<UnifiedError>) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        self.begin();
        let is_whole = matches!(ended, Some(Ended::Finished(_)));
        for id in self.order.clone() {
            self.tell(&id);
        }
        // What is open in a run that did not finish stays so: the fold marks it as cut.
        if is_whole {
            self.close();
        }
        let open_calls: Vec<String> = self
            .order
            .iter()
            .filter(|id| self.calls.get(*id).is_some_and(|c| !c.is_done))
            .cloned()
            .collect();
        let waits = open_calls
            .iter()
            .any(|id| self.calls.get(id).is_some_and(|c| c.named.execution == Execution::Client));
        if !is_whole {
            for id in &open_calls {
                let record = tools::record_id(id).into_owned();
                self.writer
                    .advance(&record, &[UnifiedToolLifecycle::Cancelled], &mut self.out.drafts);
            }
        }
        let root = self.keeper.context.operation_id.resource(ROOT_RESOURCE);
        let leftovers = std::mem::take(&mut self.leftovers);
        self.keeper.fields(None, root, "", leftovers);
        if let Some(offset) = self.offset.take() {
            let id = self.next_resource();
            let payload = offset.as_str().as_bytes().to_vec();
            self.keeper.payload(
                Keep {
                    schema: OFFSET,
                    resource_type: crate::cursor_sdk::private::other(),
                    subject: None,
                    resource_id: id,
                    paths: vec!["/offset".to_owned()],
                },
                payload,
            );
        }
        self.flush();
        let ids = self.items.clone();
        match (ended, error) {
            (_, Some(error)) => {
                let reason = if error.category == ErrorCategory::Interrupted {
                    UnifiedFinishReason::Interrupted
                } else {
                    UnifiedFinishReason::Failed
                };
                self.out.fail(error, UnifiedResponseStatus::finished(reason, None), ids);
            }
            (Some(Ended::Cancelled(reason)), None) => {
                let changed = OperationChanged {
                    reason: reason.as_deref().map(sanitise),
                };
                self.out.push(EventBody::OperationCancelled(changed));
                self.completed(UnifiedFinishReason::Cancelled, "cancelled", ids);
            }
            (Some(Ended::Expired), None) => {
                self.out.push(EventBody::OperationExpired(OperationChanged::default()));
                self.completed(UnifiedFinishReason::Incomplete, "expired", ids);
            }
            (Some(Ended::Finished(_)), None) => {
                let reason = if waits {
                    UnifiedFinishReason::RequiresAction
                } else {
                    UnifiedFinishReason::Stop
                };
                // `finished` says that it ended, and nothing more.
                self.out.complete(UnifiedResponseStatus::finished(reason, None), ids);
            }
            (Some(Ended::Failed(..)) | None, None) => {}
        }
    }

    /// The result of a run that has not ended yet.
    pub(in crate::cursor_sdk) fn unfinished(&mut self, word: &str) {
        self.ended = Some(Ended::Finished(word.to_owned()));
        let ended = self.ended.take();
        self.close();
        self.end_with(ended.as_ref(), None);
        // Whoever asks for a run that goes on knows that it does.
        for draft in &mut self.out.drafts {
            let status = UnifiedResponseStatus::finished(UnifiedFinishReason::Paused, Some(word.to_owned()));
            match &mut draft.body {
                EventBody::OperationCompleted(done) => done.status = status,
                EventBody::StreamCompleted(done) => done.status = status,
                _ => {}
            }
        }
    }

    fn completed(&mut self, reason: UnifiedFinishReason, word: &str, item_ids: Vec<UnifiedId>) {
        let status = UnifiedResponseStatus::finished(reason, Some(word.to_owned()));
        self.out.push(EventBody::StreamCompleted(StreamCompleted { status, item_ids }));
    }

    /// Hands resources and losses on with the events so far.
    pub(in crate::cursor_sdk) fn settle(&mut self) {
        if self.has_begun && !self.has_ended {
            self.flush();
        }
    }
}
