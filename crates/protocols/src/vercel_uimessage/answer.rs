//! An answer on its way to events: parts of steps that have ended, how the answer stands, what belongs to its message.

use super::decode_parts::PartDecoder;
use super::private::{Form, MessageForm};
use super::{profile, usage, wire};
use crate::codec::Decoded;
use crate::context::DecodeContext;
use crate::item_writer::{ItemWriter, Pieces};
use crate::keeper::Keep;
use crate::object::Object;
use crate::wire::Extra;
use throughline_format::event::{EventBody, LossUpdate, UsageUpdate, Warning};
use throughline_format::item::ItemStatus;
use throughline_format::{
    ErrorCategory, Json, UnifiedError, UnifiedFinishReason, UnifiedItem, UnifiedItemBody, UnifiedResponseStatus, UnifiedToolLifecycle,
};

/// First resource of an answer as a whole; those of the request of the same operation come before.
const ROOT_RESOURCE: u64 = 16;

/// Mark of a body without its usual frame: an answer that is one message, a request that is a list.
pub(super) const ALONE: &str = "[]";
/// Mark of a list of messages that does not end with an answer.
pub(super) const NO_MESSAGE: &str = "assistant";

/// How the wire says that an answer ended.
pub(super) enum Ending {
    /// It finished, for this reason.
    Finished(Option<String>),
    /// Somebody stopped it.
    Aborted(Option<String>),
    /// It failed.
    Failed(Box<UnifiedError>),
}

/// State of one answer.
pub(super) struct Answer {
    pub decoder: PartDecoder,
    pub pieces: Pieces,
    writer: ItemWriter,
    out: Decoded,
    /// Items that events were made of.
    written: usize,
    losses: usize,
    root: Vec<(String, Json)>,
    /// ID and metadata of the message.
    pub message: MessageForm,
    pub metadata: Option<Object>,
    extra: Extra,
    path: String,
    is_alone: bool,
    has_no_message: bool,
    has_begun: bool,
    has_ended: bool,
}

impl Answer {
    pub(super) fn new(context: DecodeContext) -> Self {
        let model = context.model(None);
        Self {
            decoder: PartDecoder::new(context, Some(model)),
            pieces: Pieces::new(),
            writer: ItemWriter::default(),
            out: Decoded::default(),
            written: 0,
            losses: 0,
            root: Vec::new(),
            message: MessageForm::default(),
            metadata: None,
            extra: Extra::default(),
            path: String::new(),
            is_alone: false,
            has_no_message: false,
            has_begun: false,
            has_ended: false,
        }
    }

    pub(super) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// What came out since the last time.
    pub(super) fn take(&mut self) -> Decoded {
        std::mem::take(&mut self.out)
    }

    /// The body is one message and no list.
    pub(super) fn stands_alone(&mut self) {
        self.is_alone = true;
    }

    /// The list of messages does not end with an answer.
    pub(super) fn has_no_message(&mut self) {
        self.has_no_message = true;
    }

    /// Keeps members of the body as a whole.
    pub(super) fn keep_root(&mut self, members: impl IntoIterator<Item = (String, Json)>) {
        self.root.extend(members);
    }

    /// Says something that changes nothing.
    pub(super) fn warn(&mut self, code: &str, message: &str) {
        self.begin();
        self.out.push(EventBody::Warning(Warning::new(code, message)));
    }

    /// A whole message.
    pub(super) fn message(&mut self, path: &str, message: wire::Message) {
        path.clone_into(&mut self.path);
        self.message.id = message.id;
        self.metadata = message.metadata.as_ref().and_then(Object::of);
        if let (None, Some(raw)) = (&self.metadata, message.metadata) {
            self.keep_root([(format!("{path}/metadata"), raw)]);
        }
        self.extra = message.extra;
        for (number, part) in message.parts.into_iter().flatten().enumerate() {
            self.decoder.part(&format!("{path}/parts/{number}"), part);
        }
    }

    /// The answer begins.
    pub(super) fn begin(&mut self) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        let context = &self.decoder.context;
        let model = context.model(None);
        self.out.push(context.started(profile(), &model, None));
    }

    /// Makes events of the items that are complete.
    pub(super) fn flush(&mut self) {
        self.begin();
        if self.written == 0 && !self.decoder.items.is_empty() {
            // The number of items is known at the end only; zero stands for all of them.
            let (path, form, extra) = (self.path.clone(), self.message.clone(), std::mem::take(&mut self.extra));
            self.decoder.belongs(&path, 0, &form, None, extra);
        }
        let fresh: Vec<UnifiedItem> = self.decoder.items.get(self.written..).unwrap_or_default().to_vec();
        self.written = self.decoder.items.len();
        for item in fresh {
            self.writer.item(item, &mut self.pieces, &mut self.out.drafts);
        }
        self.out.resources.append(&mut self.decoder.keeper.resources);
        let entries: Vec<_> = self
            .decoder
            .keeper
            .loss
            .report()
            .entries
            .get(self.losses..)
            .unwrap_or_default()
            .to_vec();
        self.losses += entries.len();
        if !entries.is_empty() {
            self.out.push(EventBody::LossUpdate(LossUpdate { entries }));
        }
    }

    /// The answer ends; without an ending of its own it stands as it was stored.
    pub(super) fn end(&mut self, ending: Option<Ending>) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        self.decoder.end_message();
        self.flush();
        let root = self.decoder.context.operation_id.resource(ROOT_RESOURCE);
        if let Some(metadata) = self.metadata.take() {
            let json = metadata.to_json();
            if let Some(usage) = usage::decode(&json) {
                self.out.push(EventBody::UsageUpdate(UsageUpdate { usage }));
            }
            let path = format!("{}/metadata", self.path);
            self.decoder.keeper.loss.info(
                crate::feature::Feature::WireUnmapped,
                path.clone(),
                "metadata of an application; kept for the same protocol",
            );
            let id = self.decoder.context.operation_id.resource(ROOT_RESOURCE + 1);
            let payload = json.as_str().as_bytes().to_vec();
            self.decoder.keeper.payload(
                Keep {
                    schema: super::private::METADATA,
                    resource_type: super::private::other(),
                    subject: None,
                    resource_id: id,
                    paths: vec![path],
                },
                payload,
            );
        }
        if self.is_alone || self.decoder.items.is_empty() {
            // Without an item nothing else tells of the message.
            let mut form = Form::default();
            if self.is_alone {
                form.absent.push(ALONE.to_owned());
            }
            if self.has_no_message {
                form.absent.push(NO_MESSAGE.to_owned());
            }
            if self.decoder.items.is_empty() && self.message.id.is_some() {
                form.spelled("id", self.message.id.as_deref(), None);
            }
            let id = self.decoder.context.operation_id.resource(ROOT_RESOURCE + 2);
            self.decoder.keeper.root_form(id, &form);
        }
        let members = std::mem::take(&mut self.root);
        self.decoder.keeper.fields(None, root, "", members);
        self.flush();
        let ids = self.decoder.items.iter().map(|item| item.id.clone()).collect();
        match ending {
            None => {
                let status = self.status(None);
                self.out.complete(status, ids);
            }
            Some(Ending::Finished(reason)) => {
                let status = self.status(reason);
                self.out.complete(status, ids);
            }
            Some(Ending::Aborted(reason)) => {
                self.out
                    .push(EventBody::OperationCancelled(throughline_format::event::OperationChanged {
                        reason: reason.as_deref().map(throughline_format::error::sanitise),
                    }));
                let status = UnifiedResponseStatus::finished(UnifiedFinishReason::Cancelled, None);
                self.out
                    .push(EventBody::StreamCompleted(throughline_format::event::StreamCompleted {
                        status,
                        item_ids: ids,
                    }));
            }
            Some(Ending::Failed(error)) => {
                let reason = if error.category == ErrorCategory::Interrupted {
                    UnifiedFinishReason::Interrupted
                } else {
                    UnifiedFinishReason::Failed
                };
                self.out.fail(*error, UnifiedResponseStatus::finished(reason, None), ids);
            }
        }
    }

    /// How the answer stands: an open question and an open call decide over the wire's word.
    fn status(&self, word: Option<String>) -> UnifiedResponseStatus {
        let (mut open, mut asked, mut torn) = (false, false, false);
        for item in &self.decoder.items {
            torn |= item.status == ItemStatus::Incomplete;
            if let UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) = &item.body {
                open |= matches!(
                    call.lifecycle,
                    UnifiedToolLifecycle::ArgumentsReady | UnifiedToolLifecycle::ApprovalApproved | UnifiedToolLifecycle::Executing
                ) && !call.provider_executed;
                asked |= call.lifecycle == UnifiedToolLifecycle::ApprovalRequired;
            }
        }
        let reason = match word.as_deref() {
            _ if asked => UnifiedFinishReason::RequiresAction,
            Some("length") => UnifiedFinishReason::Length,
            Some("content-filter") => UnifiedFinishReason::ContentFilter,
            Some("interrupted") => UnifiedFinishReason::Interrupted,
            _ if open => UnifiedFinishReason::ToolCalls,
            Some("stop") => UnifiedFinishReason::Stop,
            Some("tool-calls") => UnifiedFinishReason::ToolCalls,
            None if torn => UnifiedFinishReason::Interrupted,
            // `error` comes here only without an error, `other` and later words mean nothing more.
            _ => UnifiedFinishReason::Unknown,
        };
        UnifiedResponseStatus::finished(reason, word)
    }
}
